// A libnvrtc.so in front of NVRTC: a callback may exchange the text of a program before it is compiled. `bench/attention_texts.py` builds it:
// gcc -shared -fPIC -O1 -o libnvrtc.so.13 shim.c -ldl. NVRTC itself is the library that SHIM_NVRTC names.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

typedef const char* (*Change)(const char*);
static Change change;

void shim_set(Change to) { change = to; }

static void* nvrtc(const char* name) {
  static void* library;
  if (!library) library = dlopen(getenv("SHIM_NVRTC"), RTLD_NOW | RTLD_LOCAL);
  return library ? dlsym(library, name) : 0;
}

int nvrtcCreateProgram(void** program, const char* text, const char* name, int count, const char* const* headers, const char* const* names) {
  int (*call)(void**, const char*, const char*, int, const char* const*, const char* const*) = nvrtc("nvrtcCreateProgram");
  return call(program, change ? change(text) : text, name, count, headers, names);
}

int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  int (*call)(void*, int, const char* const*) = nvrtc("nvrtcCompileProgram");
  return call(program, count, options);
}

#define FORWARD_1(result, name, a) \
  result name(a x) { \
    result (*call)(a) = nvrtc(#name); \
    return call(x); \
  }
#define FORWARD_2(name, a, b) \
  int name(a x, b y) { \
    int (*call)(a, b) = nvrtc(#name); \
    return call(x, y); \
  }
FORWARD_1(const char*, nvrtcGetErrorString, int)
FORWARD_1(int, nvrtcDestroyProgram, void**)
FORWARD_2(nvrtcGetPTXSize, void*, size_t*)
FORWARD_2(nvrtcGetPTX, void*, char*)
FORWARD_2(nvrtcGetCUBINSize, void*, size_t*)
FORWARD_2(nvrtcGetCUBIN, void*, char*)
FORWARD_2(nvrtcGetProgramLogSize, void*, size_t*)
FORWARD_2(nvrtcGetProgramLog, void*, char*)
FORWARD_2(nvrtcVersion, int*, int*)
