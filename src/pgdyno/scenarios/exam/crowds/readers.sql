-- Readers who must look up the parents of the subtransactions that they meet.
select sum(n) from counters;
