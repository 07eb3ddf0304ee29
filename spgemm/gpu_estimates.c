/* Both estimates of nnz(C) on the device, each with what it takes. */
#include "spgemm/gpu_rows.h"

static bool sampled(struct gm_way *way, struct gm_estimates *e, struct gm_spgemm_error *error) {
    struct gm_work w = {0};
    bool done = gm_work_make(&w, way, error) && gm_work_totals(&w, error) && gm_work_sample(&w, NULL, error);
    e->sampled = (double)w.totals.bound * (double)w.shrink;
    gm_work_drop(&w);
    return done;
}

static bool cohen(struct gm_way *way, struct gm_estimates *e, struct gm_spgemm_error *error) {
    struct gm_gpu *g = &way->gpu;
    struct gm_block drawn = {0}, reached = {0}, total = {0};
    size_t keys = GM_COHEN_KEYS * sizeof(float);
    bool done = gm_block_make(&drawn, &g->memory, (size_t)g->b->columns * keys, "drawn keys", error) &&
                gm_block_make(&reached, &g->memory, (size_t)g->b->rows * keys, "reached keys", error) &&
                gm_block_make(&total, &g->memory, sizeof e->cohen, "an estimate", error) &&
                gm_cuda(cudaMemsetAsync(total.at, 0, sizeof e->cohen, NULL), "clearing", error) &&
                gm_cuda(gm_launch_cohen(g->a, g->b, GM_SAMPLE_SEED, drawn.at, reached.at, total.at), "keys", error) &&
                gm_cuda(cudaMemcpy(&e->cohen, total.at, sizeof e->cohen, cudaMemcpyDeviceToHost), "an estimate", error);
    gm_block_drop(&drawn, &g->memory);
    gm_block_drop(&reached, &g->memory);
    gm_block_drop(&total, &g->memory);
    return done;
}

static bool timed(struct gm_way *way, bool (*make)(struct gm_way *, struct gm_estimates *, struct gm_spgemm_error *),
                  struct gm_estimates *e, double *ms, struct gm_spgemm_error *error) {
    struct gm_gpu *g = &way->gpu;
    float took = 0;
    bool done = gm_cuda(cudaEventRecord(g->begin, NULL), "event", error) && make(way, e, error) &&
                gm_cuda(cudaEventRecord(g->end, NULL), "event", error) &&
                gm_cuda(cudaEventSynchronize(g->end), "an estimate", error) &&
                gm_cuda(cudaEventElapsedTime(&took, g->begin, g->end), "event", error);
    *ms = (double)took;
    return done;
}

bool gm_way_estimate(void *pointer, struct gm_estimates *e, struct gm_spgemm_error *error) {
    struct gm_way *way = pointer;
    struct gm_memory product = way->gpu.memory;
    bool done = true;
    /* What is taken here is no part of the product, whose C stays. */
    way->gpu.memory.limit = 0;
    *e = (struct gm_estimates){0};
    /* The first time loads code. */
    for (int i = 0; i < 2 && done; i++)
        done = timed(way, sampled, e, &e->sampled_ms, error) && timed(way, cohen, e, &e->cohen_ms, error);
    way->gpu.memory = product;
    return done;
}
