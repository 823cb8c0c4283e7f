/* SPDX-License-Identifier: MIT */
/* What the files of the page share. */
#ifndef PLM_REPORT_PAGE_INTERNAL_H
#define PLM_REPORT_PAGE_INTERNAL_H

#include "base/text.h"
#include "report/timeline.h"

/* Appends what people call a site: its call site, or its layer and tensor, or its role. */
void plm__page_add_site(plm_text *out, const plm_trace *trace, const plm_holder_key *site);

/* Appends sentences, each a quoted JSON text, with commas between: the peak and who holds it, what
 * the driver gave, failed requests, the end. At least one. */
void plm__page_add_story(plm_text *out, const plm_timeline *timeline,
                         const plm_export_source *source);

/* Appends one source as a JSON object. A failure sticks to `out`. */
void plm__page_add_source(plm_text *out, const plm_timeline *timeline,
                          const plm_export_source *source);

#endif
