-- 1 % of the mix: an intentional syntax error, to prove that errors are counted: every run must
-- report these as expected errors.
\expect 42601
this is not a statement;
