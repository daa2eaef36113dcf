; Predicted time of a kernel: totals, engines, barriers, the critical path by source line; three back ends and a preset.
; run: time %d/klr/01_sendrecv_swap_f32_128x64.klr --random 1
; run: time %d/klr/01_sendrecv_swap_f32_128x64.klr --random 1 --back-end unit
; run: time %d/klr/01_sendrecv_swap_f32_128x64.klr --random 1 --back-end hwm --target trn3
; run: time %d/klr/16_single_core_add_f32.klr --random 1 --preset conservative --pe-ramp off
; run: time %d/klr/16_single_core_add_f32.klr --random 1 --target trn1 --format json
; run: time %d/klr/01_sendrecv_swap_f32_128x64.klr
; run: time %d/klr/01_sendrecv_swap_f32_128x64.klr --random 1 --back-end fast
