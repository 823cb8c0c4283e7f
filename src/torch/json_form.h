/* SPDX-License-Identifier: MIT */
/*
 * The JSON form of a snapshot: the same values as the pickle, tuples written as arrays. Read as a
 * stream into the same document, so that a large file takes no more memory than its pickle.
 */
#ifndef PLM_TORCH_JSON_FORM_H
#define PLM_TORCH_JSON_FORM_H

#include "torch/document.h"
#include "torch/stream.h"

/*
 * Reads one JSON value (RFC 8259) from the stream, which it must end but for white space; *root =
 * that value. Integers keep 64 bits; other numbers become reals. PLM_ERROR_FORMAT names the file
 * and the byte; PLM_ERROR_UNSUPPORTED when a named maximum is met; PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm__json_form_read(plm_stream *stream, plm_document *document,
                                            plm_value *root);

#endif
