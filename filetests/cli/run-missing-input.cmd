; Inputs that are missing, unknown or of the wrong shape: one error that lists what the kernel wants.
; run: run %e/rmsnorm_2core.klr
; run: run %e/rmsnorm_2core.klr -i y=%d/klr/io/01_sendrecv_swap_f32_128x64.in.x.npy
; run: run %e/rmsnorm_2core.klr -i x=%d/klr/io/01_sendrecv_swap_f32_128x64.in.x.npy
; run: run %e/rmsnorm_2core.klr -i x=nothing.npy
