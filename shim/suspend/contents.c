/* One device after the other, by pieces (contents.h). */
#include "shim/suspend/contents.h"

#include <sys/mman.h>

#include "shim/resource/suspendable_memory.h"
#include "shim/suspend/checksum.h"
#include "shim/suspend/copying.h"
#include "shim/suspend/select.h"

struct pieces {
    struct gm_context context;
    struct gm_copy_piece *list;
    unsigned count;
    unsigned other; /* pages that came back as others */
};

/* ---- checksums */

struct sums {
    uint64_t *pages;
    struct gm_checksum *list; /* in the order of the pieces' pages; NULL: none */
    unsigned count;
    size_t bytes;
};

static unsigned whole_pages(const struct gm_copy_piece *piece) {
    return piece->backing ? (unsigned)(piece->size / GM_SUSPENDABLE_PAGE) : 0;
}

/* Without them everything is copied, and nothing is compared. A context that is there for one copy gets no kernel. */
static struct sums take_sums(const struct pieces *pieces) {
    static int once;
    struct sums sums = {0};
    unsigned at = 0;
    for (unsigned i = 0; i < pieces->count; i++)
        sums.count += pieces->context.id ? whole_pages(&pieces->list[i]) : 0;
    sums.bytes = sums.count * (sizeof *sums.pages + sizeof *sums.list);
    if (!sums.count || !(sums.pages = gm_pages(sums.bytes)))
        return sums;
    for (unsigned i = 0; i < pieces->count; i++)
        for (unsigned page = 0; page < whole_pages(&pieces->list[i]); page++)
            sums.pages[at++] = pieces->list[i].device + page * GM_SUSPENDABLE_PAGE;
    struct gm_checksum *list = (struct gm_checksum *)(sums.pages + sums.count);
    gm_status status = gm_checksums(&pieces->context, sums.pages, sums.count, list);
    if (status)
        gm_log_once(
            &once, GM_LOG_WARN,
            "the device computes no checksums (error %d): each suspend copies all pages, and no copy is checked",
            status);
    else
        sums.list = list;
    return sums;
}

static void drop_sums(struct sums *sums) {
    if (sums->pages)
        munmap(sums->pages, sums->bytes);
}

/* Pages whose contents are not on the host get the state GM_PAGE_NONE. False: there are no checksums. */
static bool find_changed(const struct pieces *pieces) {
    struct sums sums = take_sums(pieces);
    const struct gm_checksum *sum = sums.list;
    bool known = sum != NULL;
    for (unsigned i = 0; i < pieces->count; i++) {
        const struct gm_copy_piece *piece = &pieces->list[i];
        for (unsigned at = 0; at * GM_SUSPENDABLE_PAGE < piece->size; at++) {
            struct gm_page *page = gm_copy_page(piece, at);
            struct gm_checksum now = sums.list && at < whole_pages(piece) ? *sum++ : gm_no_checksum;
            bool same =
                page->state != GM_PAGE_NONE && gm_checksum_is_known(&now) && gm_checksum_equals(&page->sum, &now);
            page->sum = now;
            if (!same)
                page->state = gm_checksum_is_zero(&now) ? GM_PAGE_ZERO : GM_PAGE_NONE;
        }
    }
    drop_sums(&sums);
    return known;
}

/* False: there are no checksums. */
static bool count_others(struct pieces *pieces) {
    static int once;
    struct sums sums = take_sums(pieces);
    const struct gm_checksum *sum = sums.list;
    bool known = sum != NULL;
    for (unsigned i = 0; known && i < pieces->count; i++)
        for (unsigned at = 0; at < whole_pages(&pieces->list[i]); at++, sum++) {
            const struct gm_page *page = gm_copy_page(&pieces->list[i], at);
            if (!gm_checksum_is_known(&page->sum) || gm_checksum_equals(&page->sum, sum))
                continue;
            pieces->other++;
            gm_log_once(&once, GM_LOG_ERROR,
                        "the page at 0x%llx came back from the host with other contents than it left with: the memory "
                        "stays away, and each resume tries it again",
                        (unsigned long long)pieces->list[i].device + at * GM_SUSPENDABLE_PAGE);
        }
    drop_sums(&sums);
    return known;
}

/* ---- ranges */

/* What a file returns is checked in any case. */
static bool in_file(const struct pieces *pieces) {
    bool any = false;
    for (unsigned i = 0; !any && i < pieces->count; i++)
        any = pieces->list[i].backing && pieces->list[i].backing->file;
    return any;
}

static gm_status move_out(struct pieces *pieces) {
    if (!find_changed(pieces) && in_file(pieces))
        return GM_NOT_SUPPORTED;
    gm_status status = gm_copy_pieces(&pieces->context, pieces->list, pieces->count, true);
    for (unsigned i = 0; !status && i < pieces->count; i++)
        for (unsigned at = 0; at * GM_SUSPENDABLE_PAGE < pieces->list[i].size; at++) {
            struct gm_page *page = gm_copy_page(&pieces->list[i], at);
            page->state = page->state == GM_PAGE_NONE ? GM_PAGE_STORED : page->state;
        }
    return status;
}

static gm_status move_back(struct pieces *pieces) {
    gm_status status = gm_copy_pieces(&pieces->context, pieces->list, pieces->count, false);
    if (!status && !count_others(pieces) && in_file(pieces))
        status = GM_NOT_SUPPORTED;
    return status ? status : pieces->other ? (gm_status)CUDA_ERROR_UNKNOWN : GM_OK;
}

static unsigned pieces_of(const struct gm_suspendable_range *range) {
    return (unsigned)((range->size + GM_SUSPENDABLE_PIECE - 1) / GM_SUSPENDABLE_PIECE);
}

static void list_pieces(const struct gm_suspendable_range *range, struct gm_copy_piece *list) {
    for (size_t offset = 0; offset < range->size; offset += GM_SUSPENDABLE_PIECE) {
        size_t rest = range->size - offset;
        *list++ = (struct gm_copy_piece){.device = range->address + offset,
                                         .backing = range->backing,
                                         .offset = offset,
                                         .size = rest < GM_SUSPENDABLE_PIECE ? rest : GM_SUSPENDABLE_PIECE};
    }
}

static gm_status move_device(int device, enum gm_suspend_choice choice, struct pieces *pieces) {
    unsigned count = 0;
    for (struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next)
        count += range->choice == (int)choice && range->device == device ? pieces_of(range) : 0;
    if (!count)
        return GM_OK;
    bool known = gm_context_on(device, &pieces->context);
    int hold = known ? gm_context_hold(pieces->context.handle, pieces->context.id) : -1;
    if (hold < 0) {
        pieces->context = (struct gm_context){.device = device};
        if (gm_drv.primary_retain(&pieces->context.handle, device)) /* what the program maps outlives its contexts */
            return GM_INVALID_CONTEXT;
    }
    gm_status status = GM_OUT_OF_MEMORY;
    pieces->list = gm_pages(count * sizeof *pieces->list);
    pieces->count = 0;
    for (struct gm_suspendable_range *range = gm_suspendable_first(); pieces->list && range; range = range->next)
        if (range->choice == (int)choice && range->device == device) {
            list_pieces(range, pieces->list + pieces->count);
            pieces->count += pieces_of(range);
        }
    if (pieces->list) {
        status = choice == GM_CHOICE_BACK ? move_back(pieces) : move_out(pieces);
        munmap(pieces->list, count * sizeof *pieces->list);
    }
    if (hold >= 0)
        gm_context_let_go(hold);
    else if (gm_drv.primary_release)
        gm_drv.primary_release(device);
    return status;
}

/* Moves the ranges with this choice. */
static gm_status move(enum gm_suspend_choice choice, struct pieces *pieces) {
    struct gm_suspendable_range *range = gm_suspendable_first(), *end;
    gm_status status = GM_OK;
    for (; range && !status; range = range->next)
        status = range->choice == (int)choice ? gm_suspendable_open(range) : GM_OK;
    end = range; /* the last one that was opened, or failed, is before it */
    for (int device = 0; !status && device < GM_LOCATION_DEVICES; device++)
        status = move_device(device, choice, pieces);
    for (range = gm_suspendable_first(); range != end; range = range->next)
        if (range->choice == (int)choice)
            gm_suspendable_close(range);
    return status;
}

gm_status gm_contents_out(void) {
    struct pieces pieces = {0};
    return move(GM_CHOICE_COPY, &pieces);
}

gm_status gm_contents_back(unsigned *other) {
    struct pieces pieces = {0};
    gm_status status = move(GM_CHOICE_BACK, &pieces);
    *other = pieces.other;
    return status;
}
