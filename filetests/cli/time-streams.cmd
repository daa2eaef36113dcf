; Predicted time of what is linked, and of what is in a container: the same numbers, semaphores instead of edges.
; run: time %d/klr/01_sendrecv_swap_f32_128x64.klr --random 1 --level linked
; run: time %d/klr/01_sendrecv_swap_f32_128x64.klr --random 1 --level bundles --back-end unit
; run: encode %d/klr/01_sendrecv_swap_f32_128x64.klr -o %t/k.tdb
; run: time %t/k.tdb --random 1
; run: time %d/klr/01_sendrecv_swap_f32_128x64.klr --random 1 --level bir
; run: time --sweep bytes=4..64 --level linked
