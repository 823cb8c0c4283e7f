/* SPDX-License-Identifier: MIT */
/*
 * The page: the fixed parts with the data of every source between them. The parts stand in
 * src/report/page; page.html names the places where the others go.
 */
#include "plimsoll/export.h"

#include <string.h>

#include "base/file.h"
#include "plimsoll/version.h"
#include "report/escape.h"
#include "report/page_assets.h"
#include "report/page_internal.h"

static plm_status flush(plm_file_writer *file, plm_text *out)
{
    PLM_TRY(plm__text_status(out));
    PLM_TRY(plm__file_append(file, out->items, (size_t)out->count));
    out->count = 0;
    return PLM_OK;
}

static plm_status add_data(plm_file_writer *file, const char *title,
                           const plm_export_source *sources, int64_t count, plm_text *out)
{
    plm__text_add(out, "{\"program\":\"plimsoll %s\",\"title\":", plm_version());
    plm__escape_add(out, title);
    plm__text_add(out, ",\"sources\":[");
    for (int64_t i = 0; i < count; i++) {
        plm_timeline timeline = {0};
        plm_status status = plm__timeline_init(&sources[i], &timeline);
        if (status == PLM_OK) {
            plm__text_add(out, i ? ",\n" : "\n");
            plm__page_add_source(out, &timeline, &sources[i]);
            status = flush(file, out);
        }
        plm__timeline_fini(&timeline);
        PLM_TRY(status);
    }
    plm__text_add(out, "]}");
    return flush(file, out);
}

/* Writes page.html up to the place that `mark` names and moves *at behind it. */
static plm_status add_until(plm_file_writer *file, const char *mark, const char **at)
{
    const char *place = strstr(*at, mark);
    PLM_BUG_IF(!place, "page.html has no place for %s", mark);
    PLM_TRY(plm__file_append(file, *at, (size_t)(place - *at)));
    *at = place + strlen(mark);
    return PLM_OK;
}

static plm_status write_page(plm_file_writer *file, const char *title,
                             const plm_export_source *sources, int64_t count, plm_text *out)
{
    const char *at = plm__page_html;
    PLM_TRY(add_until(file, "@CSS@", &at));
    PLM_TRY(plm__file_append(file, plm__page_css, plm__page_css_bytes));
    PLM_TRY(add_until(file, "@DATA@", &at));
    PLM_TRY(add_data(file, title, sources, count, out));
    PLM_TRY(add_until(file, "@JS@", &at));
    PLM_TRY(plm__file_append(file, plm__read_js, plm__read_js_bytes));
    PLM_TRY(plm__file_append(file, plm__chart_js, plm__chart_js_bytes));
    PLM_TRY(plm__file_append(file, plm__map_js, plm__map_js_bytes));
    PLM_TRY(plm__file_append(file, plm__lists_js, plm__lists_js_bytes));
    PLM_TRY(plm__file_append(file, plm__page_js, plm__page_js_bytes));
    return plm__file_append(file, at, strlen(at));
}

plm_status plm_export_page(const char *path, const char *title, const plm_export_source *sources,
                           int64_t count)
{
    plm_file_writer file;
    plm_text out = {0};
    PLM_TRY(plm__file_begin(path, &file));
    plm_status status = write_page(&file, title, sources, count, &out);
    plm__text_fini(&out);
    if (status == PLM_OK)
        return plm__file_finish(&file);
    plm__file_abandon(&file);
    return status;
}
