; A summary of per-core BIR JSON; private tensors carry their core.
; run: info %e/bir/swap_pair
