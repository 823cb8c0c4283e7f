/* SPDX-License-Identifier: MIT */
/*
 * Python's pickle, protocols 2 to 5, as far as plain data needs it: None, booleans, integers up to
 * 64 bits, reals, texts, bytes, lists, tuples and dictionaries, shared through the memo.
 *
 * No code is ever run: an opcode that would import, call or build an object is refused with its
 * name and place. A file that ends early, or goes on after its end, is refused too.
 */
#ifndef PLM_TORCH_PICKLE_H
#define PLM_TORCH_PICKLE_H

#include "torch/document.h"
#include "torch/stream.h"

/*
 * Reads one pickle from the stream, which it must end, into the document; *root = its value.
 * PLM_ERROR_FORMAT names the file and the byte; PLM_ERROR_UNSUPPORTED when a named maximum is met;
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm__pickle_read(plm_stream *stream, plm_document *document,
                                         plm_value *root);

#endif
