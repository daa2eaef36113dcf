; Transports of a swap by size, the crossover, and the best setting for a kernel.
; run: time --sweep bytes=4..65536
; run: time --sweep bytes=512..2048 --target trn3 --format json
; run: time %d/klr/01_sendrecv_swap_f32_128x64.klr --sweep bytes=64..1024
; run: time %d/klr/01_sendrecv_swap_f32_128x64.klr --random 1 --sweep sendrecv-to-gpsimd-max-bpp
; run: time %d/klr/16_single_core_add_f32.klr --random 1 --sweep sendrecv-to-gpsimd-max-bpp
; run: time --sweep bytes=5..9
; run: time --sweep everything --format json
