; No trace is left behind where the run does not end or the file cannot be made.
; run: time %e/kernels/barrier_loop_unequal.klr --random 1 --trace %t/stuck.pftrace
; run: time %e/rmsnorm_2core.klr --random 1 --trace %e/rmsnorm_2core.klr/run.pftrace
