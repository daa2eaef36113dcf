; One kernel at every level.
; run: lower %d/klr/01_sendrecv_swap_f32_128x64.klr --emit klr
; run: lower %d/klr/01_sendrecv_swap_f32_128x64.klr --emit bir
; run: lower %d/klr/01_sendrecv_swap_f32_128x64.klr --emit lowered
; run: lower %d/klr/01_sendrecv_swap_f32_128x64.klr --emit lowered --transport dma
