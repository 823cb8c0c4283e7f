/* SPDX-License-Identifier: MIT */
/*
 * A table of descriptors by address, chained within fixed buckets, under the process's one lock.
 * PyTorch keeps one configuration and one plan for every shape of convolution that it met, and lets
 * all other descriptors go.
 */
#include "phantom/cudnn_book.h"

#include "phantom/phantom.h"
#include "phantom/process.h"

#include <string.h>

enum { BUCKETS = 4096, ENTRIES_MAX = 1 << 18 };

struct page {
    struct page *next;
    struct plm_cudnn_entry entry;
};

static struct page *buckets[BUCKETS];
static struct page *pages, *free_pages; /* pages: all that there can be, from the first call on */
static int pages_used;                  /* of `pages`, free ones among them */

bool plm__cudnn_book_keeps(int type)
{
    switch (type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return true;
    default:
        return false;
    }
}

/* Addresses come from malloc: the lowest four bits are always zero. */
static struct page **bucket_of(plm_cudnn_descriptor descriptor)
{
    uint64_t mixed = (uint64_t)((uintptr_t)descriptor >> 4) * 0x9e3779b97f4a7c15u;
    return &buckets[mixed >> 52];
}

/* The link that points to the descriptor's page, or the one at the bucket's end. */
static struct page **link_to(plm_cudnn_descriptor descriptor)
{
    struct page **link = bucket_of(descriptor);
    while (*link && (*link)->entry.descriptor != descriptor)
        link = &(*link)->next;
    return link;
}

/* A page that was given back, or the next of the table. Under the lock. */
static struct page *take_page(void)
{
    struct page *page = free_pages;
    if (page) {
        free_pages = page->next;
        return page;
    }
    if (!pages)
        pages = plm__phantom_table(ENTRIES_MAX * sizeof *pages);
    if (pages_used == ENTRIES_MAX)
        plm__phantom_stop("wanted to remember another of cuDNN's descriptors, found %d already: "
                          "forecast fewer steps, or fewer shapes of convolutions",
                          pages_used);
    return &pages[pages_used++];
}

void plm__cudnn_book_enter(plm_cudnn_descriptor descriptor, int type)
{
    plm__phantom_lock();
    struct page **link = link_to(descriptor);
    if (!*link) {
        *link = take_page();
        (*link)->next = NULL;
    }
    (*link)->entry = (struct plm_cudnn_entry){.descriptor = descriptor, .type = type, .mode = -1};
    plm__phantom_unlock();
}

bool plm__cudnn_book_find(plm_cudnn_descriptor descriptor, struct plm_cudnn_entry *entry)
{
    memset(entry, 0, sizeof *entry);
    plm__phantom_lock();
    struct page *page = *link_to(descriptor);
    if (page)
        *entry = page->entry;
    plm__phantom_unlock();
    return page != NULL;
}

void plm__cudnn_book_change(const struct plm_cudnn_entry *entry)
{
    plm__phantom_lock();
    struct page *page = *link_to(entry->descriptor);
    if (page)
        page->entry = *entry;
    plm__phantom_unlock();
}

void plm__cudnn_book_forget(plm_cudnn_descriptor descriptor)
{
    plm__phantom_lock();
    struct page **link = link_to(descriptor), *page = *link;
    if (page) {
        *link = page->next;
        page->next = free_pages;
        free_pages = page;
    }
    plm__phantom_unlock();
}
