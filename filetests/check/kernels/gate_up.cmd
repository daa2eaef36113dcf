; Fused gate and up projections with split contraction; one receive buffer serves both exchanges.
; run: check %e/kernels/gate_up.klr
; run: run %e/kernels/gate_up.klr --random 42
; run: run %e/kernels/gate_up.klr --random 42 --schedule late -q
; run: run %e/kernels/gate_up.klr --random 42 --schedule seed=3 -q
; run: run %e/kernels/gate_up.klr --random 42 --level bir -q
