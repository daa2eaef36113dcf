; Why a small swap goes over GPSIMD and a large one over DMA.
; run: explain %d/klr/01_sendrecv_swap_f32_128x64.klr
; run: explain %d/klr/02_sendrecv_swap_bf16_128x4096.klr
; run: explain %d/klr/01_sendrecv_swap_f32_128x64.klr --sendrecv-to-gpsimd-max-bpp 255 --format json
