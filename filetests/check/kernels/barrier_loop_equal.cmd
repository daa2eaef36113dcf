; Core barriers in a run-time loop of three iterations on both cores.
; run: check %e/kernels/barrier_loop_equal.klr
; run: run %e/kernels/barrier_loop_equal.klr --random 42
; run: run %e/kernels/barrier_loop_equal.klr --random 42 --schedule late -q
; run: run %e/kernels/barrier_loop_equal.klr --random 42 --schedule seed=3 -q
; run: run %e/kernels/barrier_loop_equal.klr --random 42 --level bir -q
