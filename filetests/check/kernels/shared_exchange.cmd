; An exchange through shared DRAM in two rounds with three core barriers.
; run: check %e/kernels/shared_exchange.klr
; run: run %e/kernels/shared_exchange.klr --random 42
; run: run %e/kernels/shared_exchange.klr --random 42 --schedule late -q
; run: run %e/kernels/shared_exchange.klr --random 42 --schedule seed=3 -q
; run: run %e/kernels/shared_exchange.klr --random 42 --level bir -q
