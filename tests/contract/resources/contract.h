/* The contract of all resources: checks that every resource must pass, whatever memory it serves. */
#ifndef CONTRACT_H
#define CONTRACT_H

/* cmocka needs the four headers above first */
#include "tests/test.h"

#include "shim/resource/resource.h"

/* The context in which requests are made. */
struct origin {
    uint64_t context, context_id;
    int device;
    void (*enter)(const struct origin *origin); /* prepares a new thread for requests; may be NULL */
};

struct gm_request plain_request(const struct origin *origin, size_t size);
struct gm_request ordered_request(const struct origin *origin, size_t size, uint64_t stream);
struct gm_request pitched_request(const struct origin *origin, size_t width, size_t height);
struct gm_free_request plain_free(void);
struct gm_free_request ordered_free(uint64_t stream);

struct gm_resource *build(const char *text);
gm_status allocate(struct gm_resource *resource, const struct gm_request *request, struct gm_block *block);
gm_status release(struct gm_resource *resource, const struct gm_block *block, const struct gm_free_request *how);

void check_sizes(struct gm_resource *resource, const struct origin *origin);
void check_free_orders(struct gm_resource *resource, const struct origin *origin);
void check_reuse_of_many(struct gm_resource *resource, const struct origin *origin);
void check_pitch(struct gm_resource *resource, const struct origin *origin);
void check_refusals(struct gm_resource *resource, const struct origin *origin);
void check_threads(struct gm_resource *resource, const struct origin *origin);

#endif
