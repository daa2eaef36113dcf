; Core barriers in a run-time loop of three iterations on core 0 and two on core 1.
; run: check %e/kernels/barrier_loop_unequal.klr
; run: run %e/kernels/barrier_loop_unequal.klr --random 42
