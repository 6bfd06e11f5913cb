//@ f16
struct f16 { unsigned short bits; };
//@ bf16
struct bf16 { unsigned short bits; };
//@ f16 to_f32
TILE_INLINE float to_f32(f16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
//@ f16 to_f16
TILE_INLINE f16 to_f16(float x) { f16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
//@ bf16 to_f32
TILE_INLINE float to_f32(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
//@ bf16 to_bf16
TILE_INLINE bf16 to_bf16(float x) { bf16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
//@ ceil_div
TILE_INLINE int ceil_div(int a, int b) { return (int)(((unsigned)a + (unsigned)b - 1u) / (unsigned)b); }
//@ wrapping_add
TILE_INLINE int wrapping_add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
//@ wrapping_sub
TILE_INLINE int wrapping_sub(int a, int b) { return (int)((unsigned)a - (unsigned)b); }
//@ wrapping_mul
TILE_INLINE int wrapping_mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
//@ load16
TILE_INLINE void load16(void* to, const void* from) { *(uint4*)to = *(const uint4*)from; }
//@ load8
TILE_INLINE void load8(void* to, const void* from) { *(uint2*)to = *(const uint2*)from; }
//@ load4
TILE_INLINE void load4(void* to, const void* from) { *(unsigned*)to = *(const unsigned*)from; }
//@ load2
TILE_INLINE void load2(void* to, const void* from) { *(unsigned short*)to = *(const unsigned short*)from; }
//@ load16_if
TILE_INLINE void load16_if(bool inside, void* to, const void* from) { *(uint4*)to = inside ? *(const uint4*)from : make_uint4(0, 0, 0, 0); }
//@ load8_if
TILE_INLINE void load8_if(bool inside, void* to, const void* from) { *(uint2*)to = inside ? *(const uint2*)from : make_uint2(0, 0); }
//@ load4_if
TILE_INLINE void load4_if(bool inside, void* to, const void* from) { *(unsigned*)to = inside ? *(const unsigned*)from : 0; }
//@ load2_if
TILE_INLINE void load2_if(bool inside, void* to, const void* from) { *(unsigned short*)to = inside ? *(const unsigned short*)from : 0; }
//@ load16_stream
TILE_INLINE void load16_stream(void* to, const void* from) { uint4 v; asm("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from)); *(uint4*)to = v; }
//@ load16_stream_if
TILE_INLINE void load16_stream_if(bool inside, void* to, const void* from) { uint4 v = make_uint4(0, 0, 0, 0); asm("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4]; }" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w) : "l"(from), "r"((unsigned)inside)); *(uint4*)to = v; }
//@ load8_stream
TILE_INLINE void load8_stream(void* to, const void* from) { uint2 v; asm("ld.global.nc.L1::no_allocate.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from)); *(uint2*)to = v; }
//@ load8_stream_if
TILE_INLINE void load8_stream_if(bool inside, void* to, const void* from) { uint2 v = make_uint2(0, 0); asm("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p ld.global.nc.L1::no_allocate.v2.b32 {%0, %1}, [%2]; }" : "+r"(v.x), "+r"(v.y) : "l"(from), "r"((unsigned)inside)); *(uint2*)to = v; }
//@ load4_stream
TILE_INLINE void load4_stream(void* to, const void* from) { unsigned v; asm("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(v) : "l"(from)); *(unsigned*)to = v; }
//@ load4_stream_if
TILE_INLINE void load4_stream_if(bool inside, void* to, const void* from) { unsigned v = 0; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.b32 %0, [%1]; }" : "+r"(v) : "l"(from), "r"((unsigned)inside)); *(unsigned*)to = v; }
//@ load2_stream
TILE_INLINE void load2_stream(void* to, const void* from) { unsigned short v; asm("ld.global.nc.L1::no_allocate.b16 %0, [%1];" : "=h"(v) : "l"(from)); *(unsigned short*)to = v; }
//@ load2_stream_if
TILE_INLINE void load2_stream_if(bool inside, void* to, const void* from) { unsigned short v = 0; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.b16 %0, [%1]; }" : "+h"(v) : "l"(from), "r"((unsigned)inside)); *(unsigned short*)to = v; }
//@ f16 load_stream
TILE_INLINE f16 load_stream(const f16* from) { f16 v; asm("ld.global.nc.L1::no_allocate.b16 %0, [%1];" : "=h"(v.bits) : "l"(from)); return v; }
//@ bf16 load_stream
TILE_INLINE bf16 load_stream(const bf16* from) { bf16 v; asm("ld.global.nc.L1::no_allocate.b16 %0, [%1];" : "=h"(v.bits) : "l"(from)); return v; }
//@ load_stream
TILE_INLINE float load_stream(const float* from) { float v; asm("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(v) : "l"(from)); return v; }
//@ load_stream
TILE_INLINE int load_stream(const int* from) { int v; asm("ld.global.nc.L1::no_allocate.s32 %0, [%1];" : "=r"(v) : "l"(from)); return v; }
//@ load_stream
TILE_INLINE unsigned load_stream(const unsigned* from) { unsigned v; asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(from)); return v; }
//@ f16 load_stream_if
TILE_INLINE f16 load_stream_if(bool inside, const f16* from) { f16 v = {}; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.b16 %0, [%1]; }" : "+h"(v.bits) : "l"(from), "r"((unsigned)inside)); return v; }
//@ bf16 load_stream_if
TILE_INLINE bf16 load_stream_if(bool inside, const bf16* from) { bf16 v = {}; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.b16 %0, [%1]; }" : "+h"(v.bits) : "l"(from), "r"((unsigned)inside)); return v; }
//@ load_stream_if
TILE_INLINE float load_stream_if(bool inside, const float* from) { float v = {}; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.f32 %0, [%1]; }" : "+f"(v) : "l"(from), "r"((unsigned)inside)); return v; }
//@ load_stream_if
TILE_INLINE int load_stream_if(bool inside, const int* from) { int v = {}; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.s32 %0, [%1]; }" : "+r"(v) : "l"(from), "r"((unsigned)inside)); return v; }
//@ load_stream_if
TILE_INLINE unsigned load_stream_if(bool inside, const unsigned* from) { unsigned v = {}; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.u32 %0, [%1]; }" : "+r"(v) : "l"(from), "r"((unsigned)inside)); return v; }
//@ store16
TILE_INLINE void store16(void* to, const void* from) { *(uint4*)to = *(const uint4*)from; }
//@ store8
TILE_INLINE void store8(void* to, const void* from) { *(uint2*)to = *(const uint2*)from; }
//@ store4
TILE_INLINE void store4(void* to, const void* from) { *(unsigned*)to = *(const unsigned*)from; }
//@ store2
TILE_INLINE void store2(void* to, const void* from) { *(unsigned short*)to = *(const unsigned short*)from; }
//@ async_copy16
TILE_INLINE void async_copy16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)) : "memory"); }
//@ async_copy16_if
TILE_INLINE void async_copy16_if(bool inside, void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(inside ? 16 : 0) : "memory"); }
//@ async_copy8
TILE_INLINE void async_copy8(void* to, const void* from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)) : "memory"); }
//@ async_copy8_if
TILE_INLINE void async_copy8_if(bool inside, void* to, const void* from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(inside ? 8 : 0) : "memory"); }
//@ async_copy4
TILE_INLINE void async_copy4(void* to, const void* from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)) : "memory"); }
//@ async_copy4_if
TILE_INLINE void async_copy4_if(bool inside, void* to, const void* from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(inside ? 4 : 0) : "memory"); }
//@ async_commit
TILE_INLINE void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
//@ async_wait
template <int pending> TILE_INLINE void async_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory"); }
//@ f16 shuffle_xor
TILE_INLINE f16 shuffle_xor(unsigned mask, f16 x, int lane) { return {(unsigned short)__shfl_xor_sync(mask, (unsigned)x.bits, lane)}; }
//@ bf16 shuffle_xor
TILE_INLINE bf16 shuffle_xor(unsigned mask, bf16 x, int lane) { return {(unsigned short)__shfl_xor_sync(mask, (unsigned)x.bits, lane)}; }
//@ f16 shuffle_down
TILE_INLINE f16 shuffle_down(unsigned mask, f16 x, int lane) { return {(unsigned short)__shfl_down_sync(mask, (unsigned)x.bits, lane)}; }
//@ bf16 shuffle_down
TILE_INLINE bf16 shuffle_down(unsigned mask, bf16 x, int lane) { return {(unsigned short)__shfl_down_sync(mask, (unsigned)x.bits, lane)}; }
//@ shuffle_xor
template <class T> TILE_INLINE T shuffle_xor(unsigned mask, T x, int lane) { return __shfl_xor_sync(mask, x, lane); }
//@ shuffle_down
template <class T> TILE_INLINE T shuffle_down(unsigned mask, T x, int lane) { return __shfl_down_sync(mask, x, lane); }
//@ fast_exp2
TILE_INLINE float fast_exp2(float x) { float y; asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
//@ fast_tanh
TILE_INLINE float fast_tanh(float x) { float y; asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
