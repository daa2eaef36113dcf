; The same without the barrier between write and read of round 2.
; run: check %e/kernels/shared_exchange_no_barrier_3.klr
; run: run %e/kernels/shared_exchange_no_barrier_3.klr --random 42
