/* SPDX-License-Identifier: MIT */
/*
 * Ranks: the one whose peak is farthest from the middle, compared with the one nearest to it. Sites
 * are the same when their lines are.
 */
#include <string.h>

#include "plimsoll/findings.h"

#define SITE_LEAST ((size_t)1 << 20) /* smaller sites are not compared */

static size_t peak_of(const plm_findings *findings)
{
    size_t peak = findings->allocated_peak_bytes;
    return peak ? peak : findings->device->allocated_bytes;
}

/* The peak in the middle: half of the others are not above it. */
static size_t middle_peak(const plm_findings *const *ranks, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t below = 0, equal = 0;
        for (int64_t k = 0; k < count; k++) {
            below += peak_of(ranks[k]) < peak_of(ranks[i]);
            equal += peak_of(ranks[k]) == peak_of(ranks[i]);
        }
        if (below <= (count - 1) / 2 && (count - 1) / 2 < below + equal)
            return peak_of(ranks[i]);
    }
    return 0;
}

static size_t distance(size_t a, size_t b)
{
    return a > b ? a - b : b - a;
}

static const char *line_of(const plm_findings *findings, const plm_call_site *site)
{
    return plm_trace_text(findings->device->trace, site->site);
}

/* The site of `other` with the same line; NULL without. */
static const plm_call_site *same_site(const plm_findings *findings, const plm_call_site *site,
                                      const plm_findings *other)
{
    if (site->site == 0)
        return NULL;
    for (int64_t i = 0; i < other->site_count; i++)
        if (other->sites[i].site != 0 &&
            strcmp(line_of(other, &other->sites[i]), line_of(findings, site)) == 0)
            return &other->sites[i];
    return NULL;
}

static void compare_sites(const plm_findings *odd, const plm_findings *reference,
                          plm_odd_rank *found)
{
    for (int64_t i = 0; i < odd->site_count; i++) {
        const plm_call_site *site = &odd->sites[i];
        const plm_call_site *other = same_site(odd, site, reference);
        if (!other || site->peak_bytes < SITE_LEAST || other->peak_bytes < SITE_LEAST)
            continue;
        double factor = (double)site->peak_bytes / (double)other->peak_bytes;
        if (factor > 1.05) {
            if (found->sites_larger++ == 0)
                found->least_factor = found->most_factor = factor;
            found->least_factor = factor < found->least_factor ? factor : found->least_factor;
            found->most_factor = factor > found->most_factor ? factor : found->most_factor;
        } else if (factor < 0.95) {
            found->sites_smaller++;
        }
        if (found->place < 0 || distance(site->peak_bytes, other->peak_bytes) >
                                    distance(found->site_bytes, found->site_reference_bytes)) {
            found->place = i;
            found->site_bytes = site->peak_bytes;
            found->site_reference_bytes = other->peak_bytes;
        }
    }
}

plm_odd_rank plm_find_odd_rank(const plm_findings *const *ranks, int64_t count)
{
    plm_odd_rank found = {.odd = -1, .reference = -1, .place = -1};
    size_t middle = middle_peak(ranks, count), farthest = 0, nearest = SIZE_MAX;
    int64_t odd = -1;
    for (int64_t i = 0; i < count; i++)
        if (distance(peak_of(ranks[i]), middle) > farthest) {
            farthest = distance(peak_of(ranks[i]), middle);
            odd = i;
        }
    if (odd < 0 || farthest < middle / 50)
        return found;
    for (int64_t i = 0; i < count; i++)
        if (i != odd && distance(peak_of(ranks[i]), middle) < nearest) {
            nearest = distance(peak_of(ranks[i]), middle);
            found.reference = i;
        }
    found.odd = odd;
    found.odd_bytes = peak_of(ranks[odd]);
    found.reference_bytes = peak_of(ranks[found.reference]);
    compare_sites(ranks[odd], ranks[found.reference], &found);
    return found;
}
