/* Workspaces of gpumem_workspace.h: creation, size, stream, and loans. A loan that fits makes no driver call: it tests
 * whether the workspace lends, compares two sizes, and writes the loan into the workspace's next place for one. */
#include "shim/workspace/workspace.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "shim/base/error.h"
#include "shim/base/options.h"
#include "shim/driver/internal_stream.h"
#include "shim/driver/program_driver.h"

static const size_t first_size = (size_t)1 << 20; /* of a managed workspace */

extern char **environ;

/* ---- errors */

static enum gpumem_workspace_status no_context(void) {
    return gm_workspace_internal_error("the workspace's context cannot be entered");
}

/* The driver answered `status` to a request for `size` bytes. */
static enum gpumem_workspace_status no_memory(gm_status status, size_t size) {
    gm_fail(status, "a workspace of %zu bytes cannot be allocated: %s", size, gpumem_status_name(status));
    return status == GM_OUT_OF_MEMORY ? GPUMEM_WORKSPACE_MEMORY_ERROR : GPUMEM_WORKSPACE_INTERNAL_ERROR;
}

static const struct gpumem_loan *latest_loan(const struct gpumem_workspace *workspace) {
    return &workspace->loans[workspace->borrowed % GM_WORKSPACE_LOANS];
}

static void explain_loan(const struct gpumem_workspace *workspace, const char *what) {
    gm_fail(GM_INVALID_VALUE, "%s: a loan of %zu bytes is alive, borrowed at %s", what, latest_loan(workspace)->size,
            workspace->site ? workspace->site : "an unknown place");
}

/* Memory can be changed only while nobody uses it, and outside of captures. */
static enum gpumem_workspace_status check_idle(const struct gpumem_workspace *workspace, const char *what) {
    if (workspace->lent) {
        explain_loan(workspace, what);
        return GPUMEM_WORKSPACE_INTERNAL_ERROR;
    }
    if (gm_capture_holds(workspace->stream)) {
        gm_fail(GM_INVALID_VALUE, "%s: the stream is being captured", what);
        return GPUMEM_WORKSPACE_INTERNAL_ERROR;
    }
    return GPUMEM_WORKSPACE_SUCCESS;
}

/* ---- creation, destruction */

static const size_t loans_bytes = sizeof(struct gpumem_loan) * GM_WORKSPACE_LOANS;

static bool make_loans(struct gpumem_workspace *workspace) {
    void *loans = mmap(NULL, loans_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    workspace->loans = loans == MAP_FAILED ? NULL : loans;
    return workspace->loans != NULL;
}

static void discard(struct gpumem_workspace *workspace) {
    if (workspace->loans)
        munmap(workspace->loans, loans_bytes);
    free(workspace);
}

static enum gpumem_workspace_status read_workspace_options(const struct gpumem_workspace_options *options,
                                                           struct gpumem_workspace_options *known) {
    *known = (struct gpumem_workspace_options){0};
    if (options && gm_struct_read("gpumem_workspace_options", known, sizeof *known, options))
        return GPUMEM_WORKSPACE_INTERNAL_ERROR;
    if (!known->allocate != !known->release)
        return gm_workspace_internal_error(
            "struct gpumem_workspace_options has one of allocate and release, but not both");
    gm_options_load(environ);
    if (!known->size)
        known->size = gm_option_number(GM_OPT_WORKSPACE_SIZE);
    return GPUMEM_WORKSPACE_SUCCESS;
}

static enum gpumem_workspace_status make(struct gpumem_workspace *made,
                                         const struct gpumem_workspace_options *options) {
    made->options = *options;
    made->stream = options->stream;
    made->managed = !options->size;
    gm_workspace_probe_pools(made);
    size_t size = made->managed ? first_size : gpumem_workspace_rounded(options->size);
    if (gm_capture_holds(made->stream))
        return gm_workspace_internal_error("a workspace cannot be created: the stream is being captured");
    gm_status status = gm_workspace_renew(made, size);
    return status ? no_memory(status, size) : GPUMEM_WORKSPACE_SUCCESS;
}

GM_PUBLIC enum gpumem_workspace_status gpumem_workspace_create(const struct gpumem_workspace_options *options,
                                                               struct gpumem_workspace **workspace) {
    struct gpumem_workspace_options known;
    struct gm_context context;
    if (!workspace)
        return gm_workspace_invalid_pointer("workspace");
    enum gpumem_workspace_status status = read_workspace_options(options, &known);
    if (status)
        return status;
    if (gm_program_context(&context))
        return GPUMEM_WORKSPACE_INTERNAL_ERROR;
    struct gpumem_workspace *made = calloc(1, sizeof *made);
    if (!made)
        return no_memory(GM_OUT_OF_MEMORY, sizeof *made);
    made->context = context;
    status = make_loans(made) ? make(made, &known) : no_memory(GM_OUT_OF_MEMORY, loans_bytes);
    if (status)
        discard(made);
    else
        *workspace = made;
    return status;
}

GM_PUBLIC enum gpumem_workspace_status gpumem_workspace_destroy(struct gpumem_workspace *workspace) {
    bool pushed;
    if (!workspace)
        return GPUMEM_WORKSPACE_SUCCESS;
    if (gm_context_enter(workspace->context.handle, &pushed))
        return no_context();
    enum gpumem_workspace_status status = check_idle(workspace, "a workspace cannot be destroyed");
    if (!status) {
        (void)gm_workspace_renew(workspace, 0);
        if (workspace->order)
            (void)GM_TWICE(gm_program_driver()->event_destroy(workspace->order));
        discard(workspace);
    }
    gm_context_leave(pushed);
    return status;
}

GM_PUBLIC void gpumem_workspace_abandon(struct gpumem_workspace *workspace) {
    if (gpumem_workspace_destroy(workspace))
        gm_log(GM_LOG_WARN, "%s: it stays until the process ends", gpumem_last_error());
}

/* ---- size */

GM_PUBLIC enum gpumem_workspace_status gpumem_workspace_set_size(struct gpumem_workspace *workspace, size_t size) {
    bool pushed;
    if (!workspace)
        return gm_workspace_invalid_pointer("workspace");
    if (gm_context_enter(workspace->context.handle, &pushed))
        return no_context();
    enum gpumem_workspace_status status = check_idle(workspace, "the size of a workspace cannot change");
    if (!status) {
        gm_status failed = gm_workspace_renew(workspace, gpumem_workspace_rounded(size));
        workspace->managed = !size;
        if (failed)
            status = no_memory(failed, size);
    }
    gm_context_leave(pushed);
    return status;
}

static void lend_foreign(struct gpumem_workspace *workspace, char *address, size_t size) {
    (void)gm_workspace_renew(workspace, 0);
    workspace->managed = false;
    workspace->foreign = address != NULL;
    workspace->address = address;
    workspace->size = size / GPUMEM_WORKSPACE_CHUNK * GPUMEM_WORKSPACE_CHUNK;
}

GM_PUBLIC enum gpumem_workspace_status gpumem_workspace_set(struct gpumem_workspace *workspace, void *address,
                                                            size_t size) {
    bool pushed;
    if (!workspace || (!address && size))
        return gm_workspace_invalid_pointer(workspace ? "address" : "workspace");
    if ((uintptr_t)address % GPUMEM_WORKSPACE_CHUNK)
        return gm_workspace_internal_error("the memory of a workspace is not aligned to 64 bytes");
    if (gm_context_enter(workspace->context.handle, &pushed))
        return no_context();
    enum gpumem_workspace_status status = check_idle(workspace, "the memory of a workspace cannot change");
    if (!status)
        lend_foreign(workspace, address, address ? size : 0);
    gm_context_leave(pushed);
    return status;
}

GM_PUBLIC enum gpumem_workspace_status gpumem_workspace_get_size(const struct gpumem_workspace *workspace,
                                                                 size_t *size) {
    if (!workspace || !size)
        return gm_workspace_invalid_pointer(workspace ? "size" : "workspace");
    *size = workspace->size;
    return GPUMEM_WORKSPACE_SUCCESS;
}

GM_PUBLIC int gpumem_workspace_is_managed(const struct gpumem_workspace *workspace) {
    return workspace && workspace->managed;
}

/* ---- stream */

/* An event from outside of a capture would invalidate it. */
static enum gpumem_workspace_status move_to(struct gpumem_workspace *workspace, CUstream stream) {
    if (gm_capture_holds(stream))
        return gm_workspace_internal_error("a workspace cannot move to a stream that is being captured");
    gm_status status = gm_workspace_order(workspace, stream);
    if (status) {
        gm_fail(status, "a stream cannot wait for the workspace's former stream: %s", gpumem_status_name(status));
        return GPUMEM_WORKSPACE_INTERNAL_ERROR;
    }
    workspace->stream = stream;
    return GPUMEM_WORKSPACE_SUCCESS;
}

GM_PUBLIC enum gpumem_workspace_status gpumem_workspace_set_stream(struct gpumem_workspace *workspace,
                                                                   struct CUstream_st *stream) {
    bool pushed;
    if (!workspace)
        return gm_workspace_invalid_pointer("workspace");
    if (gm_context_enter(workspace->context.handle, &pushed))
        return no_context();
    enum gpumem_workspace_status status = check_idle(workspace, "the stream of a workspace cannot change");
    if (!status && stream != workspace->stream)
        status = move_to(workspace, stream);
    gm_context_leave(pushed);
    return status;
}

GM_PUBLIC struct CUstream_st *gpumem_workspace_stream(const struct gpumem_workspace *workspace) {
    return workspace ? workspace->stream : NULL;
}

/* ---- loans */

/* Makes a managed workspace larger, so that it holds `size` bytes. The former size is allocated again where that cannot
 * be had: an algorithm that needs less may still run. */
static gm_status grow_workspace(struct gpumem_workspace *workspace, size_t size) {
    size_t former = workspace->size;
    gm_status status = gm_workspace_renew(workspace, size > first_size ? size : first_size);
    if (status && former)
        (void)gm_workspace_renew(workspace, former);
    return status;
}

static GM_RARE bool lends_after_growth(struct gpumem_workspace *workspace, size_t size) {
    bool pushed;
    if (size > GM_WORKSPACE_TOO_LARGE || !workspace->managed) {
        gm_fail(GM_OUT_OF_MEMORY, "%zu bytes requested of a workspace of %zu bytes%s", size, workspace->size,
                workspace->managed ? "" : ", whose size is fixed");
        return false;
    }
    if (gm_context_enter(workspace->context.handle, &pushed)) {
        no_context();
        return false;
    }
    gm_status status = GM_INVALID_VALUE;
    if (gm_capture_holds(workspace->stream)) {
        gm_fail(status, "a workspace cannot grow from %zu to %zu bytes: the stream is being captured", workspace->size,
                size);
    } else {
        status = grow_workspace(workspace, size);
        if (status)
            no_memory(status, size);
    }
    gm_context_leave(pushed);
    return status == GM_OK;
}

/* Only before a loan: none is alive. */
static GM_RARE void drop_loans(struct gpumem_workspace *workspace) {
    (void)madvise(workspace->loans, loans_bytes, MADV_DONTNEED);
}

static GM_RARE void refuse_loan(const struct gpumem_workspace *workspace, size_t size, const char *site) {
    if (!workspace) {
        gm_workspace_invalid_pointer("workspace");
    } else if (workspace->query) {
        gm_fail(GM_INVALID_VALUE, "%zu bytes requested during a query of sizes", size);
    } else {
        explain_loan(workspace, "only one loan can be alive");
        gm_log(GM_LOG_ERROR, "a loan borrowed at %s was not returned before the next one was requested at %s",
               workspace->site ? workspace->site : "an unknown place", site ? site : "an unknown place");
    }
}

GM_PUBLIC struct gpumem_loan *gpumem_workspace_borrow_bytes(struct gpumem_workspace *workspace, size_t bytes,
                                                            const char *site) {
    bytes = gpumem_workspace_rounded(bytes);
    if (GM_UNLIKELY(!workspace || workspace->lent || workspace->query)) {
        refuse_loan(workspace, bytes, site);
        return NULL;
    }
    if (GM_UNLIKELY(bytes > workspace->size) && !lends_after_growth(workspace, bytes))
        return NULL;
    if (GM_UNLIKELY(workspace->borrowed % GM_WORKSPACE_LOANS_HELD == GM_WORKSPACE_LOANS_HELD - 1))
        drop_loans(workspace);
    workspace->lent = true;
    workspace->site = site;
    struct gpumem_loan *loan = &workspace->loans[++workspace->borrowed % GM_WORKSPACE_LOANS];
    *loan = (struct gpumem_loan){workspace, workspace->address, bytes, 0};
    return loan;
}

GM_PUBLIC struct gpumem_loan *gpumem_workspace_borrow(struct gpumem_workspace *workspace, size_t count,
                                                      const size_t *sizes, void **buffers, const char *site) {
    if (count && (!sizes || !buffers)) {
        gm_workspace_invalid_pointer(sizes ? "buffers" : "sizes");
        return NULL;
    }
    struct gpumem_loan *loan = gpumem_workspace_borrow_bytes(workspace, gm_workspace_sum(count, sizes), site);
    for (size_t i = 0; loan && i < count; i++)
        buffers[i] = gpumem_loan_next(loan, sizes[i]);
    return loan;
}

GM_PUBLIC void gpumem_loan_return(struct gpumem_loan *loan) {
    if (!loan)
        return;
    struct gpumem_workspace *workspace = loan->workspace;
    if (!workspace)
        gm_log(GM_LOG_ERROR, "a loan of long ago is returned a second time");
    else if (workspace->lent && loan == latest_loan(workspace))
        workspace->lent = false;
    else if (loan == latest_loan(workspace))
        gm_log(GM_LOG_ERROR, "a loan of %zu bytes, borrowed at %s, is returned a second time", loan->size,
               workspace->site ? workspace->site : "an unknown place");
    else
        gm_log(GM_LOG_ERROR, "a loan of %zu bytes is returned a second time", loan->size);
}
