; Double buffering through shared DRAM with the slot taken from the wrong bit of the counter.
; run: check %e/kernels/ping_pong_parity.klr
; run: run %e/kernels/ping_pong_parity.klr --random 42
