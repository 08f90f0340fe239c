-- 1 % of the mix: a statement that is no SQL, on purpose. It proves that errors are counted: a run
-- in which these do not show up as expected errors has a broken error meter.
\expect 42601
this is not a statement;
