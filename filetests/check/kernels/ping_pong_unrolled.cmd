; Double buffering through shared DRAM: core 0 produces into one slot while core 1 consumes the other.
; run: check %e/kernels/ping_pong_unrolled.klr
; run: run %e/kernels/ping_pong_unrolled.klr --random 42
; run: run %e/kernels/ping_pong_unrolled.klr --random 42 --schedule late -q
; run: run %e/kernels/ping_pong_unrolled.klr --random 42 --schedule seed=3 -q
; run: run %e/kernels/ping_pong_unrolled.klr --random 42 --level bir -q
