; The same without the barrier between write and read of round 1.
; run: check %e/kernels/shared_exchange_no_barrier_1.klr
; run: run %e/kernels/shared_exchange_no_barrier_1.klr --random 42
