// A CUDA driver that runs nothing and writes down what it is asked: so the runtime's use of the driver is tested where
// there is no GPU. Memory is host memory, so copies are real. FAKE_LOG names the log; FAKE_TRACE names another one, of what
// each call uses (trace.rs reads it); FAKE_DELAY is the most microseconds that a call dawdles before it begins, so that
// threads meet where they can; the other FAKE_* variables make it fail. One call is made at a time, and the logs have
// their order. Signatures: cuda.h of CUDA 13.0.
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int R;
typedef uint64_t P;
typedef void *H;

static FILE *out;
static int launches;
static intptr_t next_handle = 1;
static _Thread_local H current;
static FILE *trace_out;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void say(const char *format, ...) {
    if (!out) {
        const char *path = getenv("FAKE_LOG");
        out = path ? fopen(path, "a") : stderr;
    }
    va_list arguments;
    va_start(arguments, format);
    vfprintf(out, format, arguments);
    va_end(arguments);
    fputc('\n', out);
    fflush(out);
}

static void trace(const char *format, ...) {
    static int asked;
    if (!asked) {
        const char *path = getenv("FAKE_TRACE");
        trace_out = path ? fopen(path, "a") : NULL;
        asked = 1;
    }
    if (!trace_out) return;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(trace_out, format, arguments);
    va_end(arguments);
    fputc('\n', trace_out);
    fflush(trace_out);
}

// A call begins: BEGIN at its start; the lock is given back where its block ends.
static void unlock(int *held) { pthread_mutex_unlock(&one_at_a_time); }
static void begin(void) {
    static int delay = -1;
    static _Thread_local unsigned seed;
    if (delay < 0) {
        const char *text = getenv("FAKE_DELAY");
        delay = text ? atoi(text) : 0;
    }
    if (delay) {
        if (!seed) seed = (unsigned)(uintptr_t)&seed | 1;
        seed = seed * 1103515245u + 12345u;
        // Mostly not at all, so that a history does not take for ever.
        if ((seed >> 16) % 4 == 0) usleep((seed >> 18) % (unsigned)delay);
    }
    pthread_mutex_lock(&one_at_a_time);
}
#define BEGIN int held __attribute__((cleanup(unlock))) = (begin(), 0); (void)held

static int setting(const char *name) {
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

static H handle(void) { return (H)(next_handle++); }
static long id(H h) { return (long)(intptr_t)h; }

// After FAKE_FAULT_AFTER launches every wait fails, as after an illegal address.
static R sticky(void) {
    int after = setting("FAKE_FAULT_AFTER");
    return after && launches >= after ? 700 : 0;
}

R cuInit(unsigned flags) { return setting("FAKE_INIT"); }
R cuDriverGetVersion(int *v) { *v = 13000; return 0; }
R cuDeviceGet(int *d, int n) { *d = n; return 0; }
R cuDeviceGetCount(int *n) { *n = setting("FAKE_NO_DEVICE") ? 0 : 2; return 0; }
R cuDeviceGetName(char *name, int len, int d) { snprintf(name, len, "Fake %d", d); return 0; }
R cuDeviceGetAttribute(int *v, int which, int d) {
    int major = setting("FAKE_MAJOR") ? setting("FAKE_MAJOR") : 9;
    *v = which == 16 ? 4 : which == 38 ? 1 << 20 : which == 75 ? major : which == 76 ? 0 : which == 97 ? 232448 : 1;
    return 0;
}
// What cudarc calls beside.
R cuDevicePrimaryCtxRelease_v2(int d) { return 0; }
R cuCtxSynchronize(void) { BEGIN; say("synchronize all"); return sticky(); }
R cuMemAllocHost_v2(void **p, size_t n) { *p = malloc(n); return 0; }
R cuMemFreeHost(void *p) { free(p); return 0; }
R cuDevicePrimaryCtxRetain(H *c, int d) { *c = (H)(intptr_t)(1000 + d); return 0; }
R cuCtxGetCurrent(H *c) { *c = current; return 0; }
R cuCtxSetCurrent(H c) { BEGIN; current = c; say("context %ld", id(c)); return sticky(); }
R cuMemGetInfo_v2(size_t *f, size_t *t) { *f = 1 << 20; *t = 1 << 22; return 0; }
// Only what a device keeps for the life of the process is allocated so, as it is opened: that it is filled and waited for is not written
// down.
static P kept;
static int opening;
R cuMemAlloc_v2(P *p, size_t n) {
    BEGIN;
    *p = kept = (P)(uintptr_t)aligned_alloc(256, (n + 255) / 256 * 256);
    opening = 1;
    return 0;
}
R cuMemFree_v2(P p) { return 1; }
// The log of a device's threads.
R cuMemHostAlloc(void **p, size_t n, unsigned flags) { *p = calloc(1, n); return 0; }
R cuMemAllocAsync(P *p, size_t n, H s) {
    BEGIN;
    if (n > (1 << 20)) return 2;
    *p = (P)(uintptr_t)aligned_alloc(256, (n + 255) / 256 * 256);
    say("alloc %zu on %ld", n, id(s));
    trace("alloc %lx %zu on %ld", (long)*p, n, id(s));
    return 0;
}
R cuMemFreeAsync(P p, H s) {
    BEGIN;
    free((void *)(uintptr_t)p);
    say("free on %ld", id(s));
    trace("free %lx on %ld", (long)p, id(s));
    return sticky();
}
R cuMemcpyHtoDAsync_v2(P to, const void *from, size_t n, H s) {
    BEGIN;
    memcpy((void *)(uintptr_t)to, from, n);
    if (to == kept) return 0;
    say("upload %zu on %ld", n, id(s));
    trace("use on %ld writes %lx", id(s), (long)to);
    return 0;
}
R cuMemcpyDtoHAsync_v2(void *to, P from, size_t n, H s) {
    BEGIN;
    memcpy(to, (void *)(uintptr_t)from, n);
    say("download %zu on %ld", n, id(s));
    trace("use on %ld reads %lx", id(s), (long)from);
    return sticky();
}
R cuMemcpyDtoDAsync_v2(P to, P from, size_t n, H s) {
    BEGIN;
    memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, n);
    say("copy %zu on %ld", n, id(s));
    trace("use on %ld reads %lx writes %lx", id(s), (long)from, (long)to);
    return sticky();
}
struct Copy {
    size_t sx, sy; int st; const void *sh; P sd; H sa; size_t sp;
    size_t dx, dy; int dt; void *dh; P dd; H da; size_t dp;
    size_t width, height;
};
R cuMemcpy2DAsync_v2(const struct Copy *c, H s) {
    BEGIN;
    const char *from = c->st == 1 ? c->sh : (const char *)(uintptr_t)c->sd;
    char *to = c->dt == 1 ? c->dh : (char *)(uintptr_t)c->dd;
    if (c->sp < c->width || c->dp < c->width) return 1;
    for (size_t i = 0; i < c->height; i++) memcpy(to + i * c->dp, from + i * c->sp, c->width);
    say("copy2d %zux%zu on %ld", c->height, c->width, id(s));
    trace("use on %ld reads %lx writes %lx", id(s), c->st == 1 ? 0 : (long)c->sd, c->dt == 1 ? 0 : (long)c->dd);
    return sticky();
}
R cuMemsetD8Async(P p, unsigned char v, size_t n, H s) {
    BEGIN;
    memset((void *)(uintptr_t)p, v, n);
    say("clear %zu on %ld", n, id(s));
    trace("use on %ld writes %lx", id(s), (long)p);
    return 0;
}
R cuStreamCreate(H *s, unsigned flags) { BEGIN; *s = handle(); say("stream %ld", id(*s)); return 0; }
R cuStreamDestroy_v2(H s) { BEGIN; say("destroy stream %ld", id(s)); return 0; }
R cuStreamSynchronize(H s) {
    BEGIN;
    if (opening) return opening = 0;
    say("synchronize %ld", id(s));
    trace("synchronize %ld", id(s));
    return sticky();
}
R cuStreamWaitEvent(H s, H e, unsigned flags) {
    BEGIN;
    say("wait %ld for %ld", id(s), id(e));
    trace("wait %ld for %ld", id(s), id(e));
    return 0;
}
// Streams that are being captured, by their handles.
static int capturing[4096];
R cuStreamGetCtx(H s, H *c) { *c = (H)(intptr_t)1000; return 0; }
R cuStreamIsCapturing(H s, int *status) {
    BEGIN;
    *status = capturing[id(s) & 4095];
    say("is capturing %ld", id(s));
    return 0;
}
R cuStreamBeginCapture_v2(H s, unsigned mode) {
    BEGIN;
    say("begin %ld mode %u", id(s), mode);
    capturing[id(s) & 4095] = 1;
    trace("begin %ld", id(s));
    return 0;
}
R cuStreamEndCapture(H s, H *g) {
    BEGIN;
    *g = handle();
    say("end %ld", id(s));
    capturing[id(s) & 4095] = 0;
    trace("end %ld graph %ld", id(s), id(*g));
    return setting("FAKE_CAPTURE");
}
R cuEventCreate(H *e, unsigned flags) { BEGIN; *e = handle(); return 0; }
R cuEventRecord(H e, H s) {
    BEGIN;
    say("record %ld on %ld", id(e), id(s));
    trace("record %ld on %ld", id(e), id(s));
    return 0;
}
R cuEventSynchronize(H e) { return sticky(); }
R cuEventQuery(H e) { return sticky(); }
R cuEventElapsedTime(float *ms, H a, H b) { *ms = 1.5f; return 0; }
R cuEventDestroy_v2(H e) { return 0; }
R cuModuleLoadData(H *m, const void *image) {
    BEGIN;
    if (memcmp(image, "\177ELF", 4)) return 200;
    *m = handle();
    return 0;
}
R cuModuleUnload(H m) { BEGIN; say("unload"); trace("unload %ld", id(m)); return 0; }
// Specialised kernels, whose names end in a dim's value, are launched and do nothing.
#define INERT ((intptr_t)1 << 40)
R cuModuleGetFunction(H *f, H m, const char *name) {
    BEGIN;
    *f = handle();
    if (strstr(name, "_K")) *f = (H)((intptr_t)*f | INERT);
    say("function %s", name);
    trace("function %ld of %ld", id(*f), id(m));
    return 0;
}
R cuFuncGetAttribute(int *v, int which, H f) { *v = which == 0 ? 1024 : 0; return 0; }
R cuFuncSetAttribute(H f, int which, int v) { BEGIN; say("attribute %d = %d", which, v); return 0; }
R cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, H f, int threads, size_t shared) { *blocks = 2; return 0; }
R cuOccupancyMaxActiveClusters(int *clusters, H f, const void *config) { *clusters = 1; return 0; }
/* Says what it is asked for: rank, and the innermost extent and box. */
R cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const unsigned long long *extents,
                         const unsigned long long *strides, const unsigned *box, const unsigned *steps, int interleave,
                         int swizzle, int promotion, int fill) {
    BEGIN;
    say("map of rank %u, %llu wide, boxes %u wide", rank, extents[0], box[0]);
    memset(map, 0, 128);
    return 0;
}
struct Launch { unsigned gx, gy, gz, bx, by, bz, shared; H stream; void *attributes; unsigned count; };
R cuLaunchKernelEx(const struct Launch *c, H f, void **parameters, void **extra) {
    BEGIN;
    // The only attribute there is: id 6 (programmatic stream serialisation), on.
    const int *attribute = c->attributes;
    if (extra || c->count > 1 || (c->count && (attribute[0] != 6 || attribute[2] != 1))) return 1;
    trace("use on %ld reads %lx writes %lx function %ld", id(c->stream), *(long *)parameters[0], *(long *)parameters[1],
          id(f));
    if ((intptr_t)f & INERT) {
        say("launch on %ld%s", id(c->stream), c->count ? " early" : "");
        return 0;
    }
    // The test's kernel: x, y, N, pitches, alpha; it is executed, so that parameters are known to arrive.
    const float *x = *(const float **)parameters[0];
    float *y = *(float **)parameters[1];
    int n = *(int *)parameters[2], k = *(int *)parameters[3];
    int pitch_x = *(int *)parameters[4], pitch_y = *(int *)parameters[5];
    float alpha = *(float *)parameters[6];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < k; j++) y[i * pitch_y + j] = alpha * x[i * pitch_x + j];
    launches++;
    say("launch on %ld grid %u %u %u block %u %u %u shared %u%s", id(c->stream), c->gx, c->gy, c->gz, c->bx, c->by,
        c->bz, c->shared, c->count ? " early" : "");
    return setting("FAKE_LAUNCH");
}
R cuGraphInstantiateWithFlags(H *x, H g, unsigned long long flags) {
    BEGIN;
    *x = handle();
    trace("instantiate %ld of %ld", id(*x), id(g));
    return 0;
}
R cuGraphLaunch(H x, H s) { BEGIN; say("graph on %ld", id(s)); trace("graph %ld on %ld", id(x), id(s)); return 0; }
R cuGraphExecDestroy(H x) { BEGIN; say("destroy graph"); trace("destroy %ld", id(x)); return 0; }
R cuGraphDestroy(H g) { return 0; }
R cuGetErrorName(int code, const char **text) {
    *text = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_FAKE";
    return 0;
}
#ifndef OLD
R cuGetErrorString(int code, const char **text) { *text = "made up by the test"; return 0; }
#endif
