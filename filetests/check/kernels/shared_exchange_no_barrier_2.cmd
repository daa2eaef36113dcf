; The same without the barrier between the rounds.
; run: check %e/kernels/shared_exchange_no_barrier_2.klr
; run: run %e/kernels/shared_exchange_no_barrier_2.klr --random 42
