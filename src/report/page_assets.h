/* SPDX-License-Identifier: MIT */
/* The fixed parts of the page, src/report/page, as the build puts them into the program. */
#ifndef PLM_REPORT_PAGE_ASSETS_H
#define PLM_REPORT_PAGE_ASSETS_H

#include <stddef.h>

/* Each ends with a NUL that its count leaves out. Scripts stand in the order in which they run. */
extern const char plm__page_html[];
extern const char plm__page_css[];
extern const size_t plm__page_css_bytes;
extern const char plm__read_js[];
extern const size_t plm__read_js_bytes;
extern const char plm__chart_js[];
extern const size_t plm__chart_js_bytes;
extern const char plm__map_js[];
extern const size_t plm__map_js_bytes;
extern const char plm__lists_js[];
extern const size_t plm__lists_js_bytes;
extern const char plm__page_js[];
extern const size_t plm__page_js_bytes;

#endif
