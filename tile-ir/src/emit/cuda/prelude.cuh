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
//@ bf16 packed_to_f32
TILE_INLINE float packed_to_f32(const bf16* pairs, int i) { const unsigned pair = ((const unsigned*)pairs)[i / 2]; return __uint_as_float(i % 2 == 0 ? pair << 16 : pair & 0xffff0000u); }
//@ bf16 to_bf16
TILE_INLINE bf16 to_bf16(float x) { bf16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
//@ ceil_div
TILE_INLINE int ceil_div(int a, int b) { return (int)(((unsigned)a + (unsigned)b - 1u) / (unsigned)b); }
TILE_INLINE long long ceil_div(long long a, long long b) { return a / b + (a % b != 0 && (a < 0) == (b < 0)); }
//@ tile_divisor
TILE_INLINE int tile_divisor(int b) { return b == 0 ? 1 : b; }
TILE_INLINE long long tile_divisor(long long b) { return b == 0 ? 1 : b; }
//@ tile_float_to_index
TILE_INLINE long long tile_float_to_index(float x) { return min(max(__float2ll_rz(x), 0ll), 1ll << 62); }
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
//@ @unordered load16_stream
TILE_INLINE void load16_stream(void* to, const void* from) { uint4 v; asm("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from)); *(uint4*)to = v; }
//@ @ordered load16_stream
TILE_INLINE void load16_stream(void* to, const void* from) { uint4 v; asm volatile("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from)); *(uint4*)to = v; }
//@ @unordered load16_stream_if
TILE_INLINE void load16_stream_if(bool inside, void* to, const void* from) { uint4 v = make_uint4(0, 0, 0, 0); asm("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4]; }" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w) : "l"(from), "r"((unsigned)inside)); *(uint4*)to = v; }
//@ @ordered load16_stream_if
TILE_INLINE void load16_stream_if(bool inside, void* to, const void* from) { uint4 v = make_uint4(0, 0, 0, 0); asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4]; }" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w) : "l"(from), "r"((unsigned)inside)); *(uint4*)to = v; }
//@ @unordered load8_stream
TILE_INLINE void load8_stream(void* to, const void* from) { uint2 v; asm("ld.global.nc.L1::no_allocate.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from)); *(uint2*)to = v; }
//@ @ordered load8_stream
TILE_INLINE void load8_stream(void* to, const void* from) { uint2 v; asm volatile("ld.global.L1::no_allocate.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from)); *(uint2*)to = v; }
//@ @unordered load8_stream_if
TILE_INLINE void load8_stream_if(bool inside, void* to, const void* from) { uint2 v = make_uint2(0, 0); asm("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p ld.global.nc.L1::no_allocate.v2.b32 {%0, %1}, [%2]; }" : "+r"(v.x), "+r"(v.y) : "l"(from), "r"((unsigned)inside)); *(uint2*)to = v; }
//@ @ordered load8_stream_if
TILE_INLINE void load8_stream_if(bool inside, void* to, const void* from) { uint2 v = make_uint2(0, 0); asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p ld.global.L1::no_allocate.v2.b32 {%0, %1}, [%2]; }" : "+r"(v.x), "+r"(v.y) : "l"(from), "r"((unsigned)inside)); *(uint2*)to = v; }
//@ @unordered load4_stream
TILE_INLINE void load4_stream(void* to, const void* from) { unsigned v; asm("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(v) : "l"(from)); *(unsigned*)to = v; }
//@ @ordered load4_stream
TILE_INLINE void load4_stream(void* to, const void* from) { unsigned v; asm volatile("ld.global.L1::no_allocate.b32 %0, [%1];" : "=r"(v) : "l"(from)); *(unsigned*)to = v; }
//@ @unordered load4_stream_if
TILE_INLINE void load4_stream_if(bool inside, void* to, const void* from) { unsigned v = 0; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.b32 %0, [%1]; }" : "+r"(v) : "l"(from), "r"((unsigned)inside)); *(unsigned*)to = v; }
//@ @ordered load4_stream_if
TILE_INLINE void load4_stream_if(bool inside, void* to, const void* from) { unsigned v = 0; asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.L1::no_allocate.b32 %0, [%1]; }" : "+r"(v) : "l"(from), "r"((unsigned)inside)); *(unsigned*)to = v; }
//@ @unordered load2_stream
TILE_INLINE void load2_stream(void* to, const void* from) { unsigned short v; asm("ld.global.nc.L1::no_allocate.b16 %0, [%1];" : "=h"(v) : "l"(from)); *(unsigned short*)to = v; }
//@ @ordered load2_stream
TILE_INLINE void load2_stream(void* to, const void* from) { unsigned short v; asm volatile("ld.global.L1::no_allocate.b16 %0, [%1];" : "=h"(v) : "l"(from)); *(unsigned short*)to = v; }
//@ @unordered load2_stream_if
TILE_INLINE void load2_stream_if(bool inside, void* to, const void* from) { unsigned short v = 0; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.b16 %0, [%1]; }" : "+h"(v) : "l"(from), "r"((unsigned)inside)); *(unsigned short*)to = v; }
//@ @ordered load2_stream_if
TILE_INLINE void load2_stream_if(bool inside, void* to, const void* from) { unsigned short v = 0; asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.L1::no_allocate.b16 %0, [%1]; }" : "+h"(v) : "l"(from), "r"((unsigned)inside)); *(unsigned short*)to = v; }
//@ @unordered f16 load_stream
TILE_INLINE f16 load_stream(const f16* from) { f16 v; asm("ld.global.nc.L1::no_allocate.b16 %0, [%1];" : "=h"(v.bits) : "l"(from)); return v; }
//@ @ordered f16 load_stream
TILE_INLINE f16 load_stream(const f16* from) { f16 v; asm volatile("ld.global.L1::no_allocate.b16 %0, [%1];" : "=h"(v.bits) : "l"(from)); return v; }
//@ @unordered bf16 load_stream
TILE_INLINE bf16 load_stream(const bf16* from) { bf16 v; asm("ld.global.nc.L1::no_allocate.b16 %0, [%1];" : "=h"(v.bits) : "l"(from)); return v; }
//@ @ordered bf16 load_stream
TILE_INLINE bf16 load_stream(const bf16* from) { bf16 v; asm volatile("ld.global.L1::no_allocate.b16 %0, [%1];" : "=h"(v.bits) : "l"(from)); return v; }
//@ @unordered load_stream
TILE_INLINE float load_stream(const float* from) { float v; asm("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(v) : "l"(from)); return v; }
//@ @ordered load_stream
TILE_INLINE float load_stream(const float* from) { float v; asm volatile("ld.global.L1::no_allocate.f32 %0, [%1];" : "=f"(v) : "l"(from)); return v; }
//@ @unordered load_stream
TILE_INLINE int load_stream(const int* from) { int v; asm("ld.global.nc.L1::no_allocate.s32 %0, [%1];" : "=r"(v) : "l"(from)); return v; }
//@ @ordered load_stream
TILE_INLINE int load_stream(const int* from) { int v; asm volatile("ld.global.L1::no_allocate.s32 %0, [%1];" : "=r"(v) : "l"(from)); return v; }
//@ @unordered load_stream
TILE_INLINE unsigned load_stream(const unsigned* from) { unsigned v; asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(from)); return v; }
//@ @ordered load_stream
TILE_INLINE unsigned load_stream(const unsigned* from) { unsigned v; asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(from)); return v; }
//@ @unordered char load_stream
TILE_INLINE unsigned char load_stream(const unsigned char* from) { unsigned v; asm("ld.global.nc.L1::no_allocate.u8 %0, [%1];" : "=r"(v) : "l"(from)); return (unsigned char)v; }
//@ @ordered char load_stream
TILE_INLINE unsigned char load_stream(const unsigned char* from) { unsigned v; asm volatile("ld.global.L1::no_allocate.u8 %0, [%1];" : "=r"(v) : "l"(from)); return (unsigned char)v; }
//@ @unordered f16 load_stream_if
TILE_INLINE f16 load_stream_if(bool inside, const f16* from) { f16 v = {}; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.b16 %0, [%1]; }" : "+h"(v.bits) : "l"(from), "r"((unsigned)inside)); return v; }
//@ @ordered f16 load_stream_if
TILE_INLINE f16 load_stream_if(bool inside, const f16* from) { f16 v = {}; asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.L1::no_allocate.b16 %0, [%1]; }" : "+h"(v.bits) : "l"(from), "r"((unsigned)inside)); return v; }
//@ @unordered bf16 load_stream_if
TILE_INLINE bf16 load_stream_if(bool inside, const bf16* from) { bf16 v = {}; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.b16 %0, [%1]; }" : "+h"(v.bits) : "l"(from), "r"((unsigned)inside)); return v; }
//@ @ordered bf16 load_stream_if
TILE_INLINE bf16 load_stream_if(bool inside, const bf16* from) { bf16 v = {}; asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.L1::no_allocate.b16 %0, [%1]; }" : "+h"(v.bits) : "l"(from), "r"((unsigned)inside)); return v; }
//@ @unordered load_stream_if
TILE_INLINE float load_stream_if(bool inside, const float* from) { float v = {}; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.f32 %0, [%1]; }" : "+f"(v) : "l"(from), "r"((unsigned)inside)); return v; }
//@ @ordered load_stream_if
TILE_INLINE float load_stream_if(bool inside, const float* from) { float v = {}; asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.L1::no_allocate.f32 %0, [%1]; }" : "+f"(v) : "l"(from), "r"((unsigned)inside)); return v; }
//@ @unordered load_stream_if
TILE_INLINE int load_stream_if(bool inside, const int* from) { int v = {}; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.s32 %0, [%1]; }" : "+r"(v) : "l"(from), "r"((unsigned)inside)); return v; }
//@ @ordered load_stream_if
TILE_INLINE int load_stream_if(bool inside, const int* from) { int v = {}; asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.L1::no_allocate.s32 %0, [%1]; }" : "+r"(v) : "l"(from), "r"((unsigned)inside)); return v; }
//@ @unordered load_stream_if
TILE_INLINE unsigned load_stream_if(bool inside, const unsigned* from) { unsigned v = {}; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.u32 %0, [%1]; }" : "+r"(v) : "l"(from), "r"((unsigned)inside)); return v; }
//@ @ordered load_stream_if
TILE_INLINE unsigned load_stream_if(bool inside, const unsigned* from) { unsigned v = {}; asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.L1::no_allocate.u32 %0, [%1]; }" : "+r"(v) : "l"(from), "r"((unsigned)inside)); return v; }
//@ @unordered char load_stream_if
TILE_INLINE unsigned char load_stream_if(bool inside, const unsigned char* from) { unsigned v = 0; asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.L1::no_allocate.u8 %0, [%1]; }" : "+r"(v) : "l"(from), "r"((unsigned)inside)); return (unsigned char)v; }
//@ @ordered char load_stream_if
TILE_INLINE unsigned char load_stream_if(bool inside, const unsigned char* from) { unsigned v = 0; asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.L1::no_allocate.u8 %0, [%1]; }" : "+r"(v) : "l"(from), "r"((unsigned)inside)); return (unsigned char)v; }
//@ store16_stream
TILE_INLINE void store16_stream(void* to, const void* from) { const uint4 v = *(const uint4*)from; asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};" :: "l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory"); }
//@ store8_stream
TILE_INLINE void store8_stream(void* to, const void* from) { const uint2 v = *(const uint2*)from; asm volatile("st.global.cs.v2.b32 [%0], {%1, %2};" :: "l"(to), "r"(v.x), "r"(v.y) : "memory"); }
//@ store4_stream
TILE_INLINE void store4_stream(void* to, const void* from) { asm volatile("st.global.cs.b32 [%0], %1;" :: "l"(to), "r"(*(const unsigned*)from) : "memory"); }
//@ store2_stream
TILE_INLINE void store2_stream(void* to, const void* from) { asm volatile("st.global.cs.b16 [%0], %1;" :: "l"(to), "h"(*(const unsigned short*)from) : "memory"); }
//@ f16 store_stream
TILE_INLINE void store_stream(f16* to, f16 v) { asm volatile("st.global.cs.b16 [%0], %1;" :: "l"(to), "h"(v.bits) : "memory"); }
//@ bf16 store_stream
TILE_INLINE void store_stream(bf16* to, bf16 v) { asm volatile("st.global.cs.b16 [%0], %1;" :: "l"(to), "h"(v.bits) : "memory"); }
//@ store_stream
TILE_INLINE void store_stream(float* to, float v) { asm volatile("st.global.cs.f32 [%0], %1;" :: "l"(to), "f"(v) : "memory"); }
//@ store_stream
TILE_INLINE void store_stream(int* to, int v) { asm volatile("st.global.cs.s32 [%0], %1;" :: "l"(to), "r"(v) : "memory"); }
//@ store_stream
TILE_INLINE void store_stream(unsigned* to, unsigned v) { asm volatile("st.global.cs.u32 [%0], %1;" :: "l"(to), "r"(v) : "memory"); }
//@ char store_stream
TILE_INLINE void store_stream(unsigned char* to, unsigned char v) { asm volatile("st.global.cs.u8 [%0], %1;" :: "l"(to), "r"((unsigned)v) : "memory"); }
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
//@ atomic_add_ordered
TILE_INLINE unsigned atomic_add_ordered(unsigned* at, unsigned x) { unsigned old; asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(x) : "memory"); return old; }
//@ async_commit
TILE_INLINE void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
//@ async_wait
template <int pending> TILE_INLINE void async_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory"); }
//@ async_arrive
TILE_INLINE void async_arrive(unsigned barrier) { asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(barrier) : "memory"); }
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
//@ f16 shuffle_up
TILE_INLINE f16 shuffle_up(unsigned mask, f16 x, int lane) { return {(unsigned short)__shfl_up_sync(mask, (unsigned)x.bits, lane)}; }
//@ bf16 shuffle_up
TILE_INLINE bf16 shuffle_up(unsigned mask, bf16 x, int lane) { return {(unsigned short)__shfl_up_sync(mask, (unsigned)x.bits, lane)}; }
//@ shuffle_up
template <class T> TILE_INLINE T shuffle_up(unsigned mask, T x, int lane) { return __shfl_up_sync(mask, x, lane); }
//@ f16 shuffle_lane
TILE_INLINE f16 shuffle_lane(unsigned mask, f16 x, int lane) { return {(unsigned short)__shfl_sync(mask, (unsigned)x.bits, lane)}; }
//@ bf16 shuffle_lane
TILE_INLINE bf16 shuffle_lane(unsigned mask, bf16 x, int lane) { return {(unsigned short)__shfl_sync(mask, (unsigned)x.bits, lane)}; }
//@ shuffle_lane
template <class T> TILE_INLINE T shuffle_lane(unsigned mask, T x, int lane) { return __shfl_sync(mask, x, lane); }
//@ fast_exp2
TILE_INLINE float fast_exp2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
//@ fast_tanh
TILE_INLINE float fast_tanh(float x) { float y; asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
//@ fast_recip
TILE_INLINE float fast_recip(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
//@ TensorMap
struct __align__(64) TensorMap { unsigned long long opaque[16]; };
//@ shared_at
template <class T> TILE_INLINE unsigned shared_at(const T* array, int index) { return (unsigned)__cvta_generic_to_shared(array) + (unsigned)index * (unsigned)sizeof(T); }
//@ tile_quotient
TILE_INLINE int tile_quotient(int x, int d, int reciprocal) { const int least = (int)((long long)x * reciprocal >> 31); return least + (x - least * d >= d); }
//@ tile_descriptor
template <class T> TILE_INLINE long long tile_descriptor(const T* array, unsigned long long bits) { return (long long)(bits | (unsigned long long)(((unsigned)__cvta_generic_to_shared(array) & 0x3FFFFu) >> 4)); }
//@ tile_elected
TILE_INLINE bool tile_elected() { unsigned chosen; asm volatile("{\n.reg .pred P;\nelect.sync _|P, 0xffffffff;\nselp.u32 %0, 1, 0, P;\n}" : "=r"(chosen)); return chosen; }
//@ tile_read_cluster_rank
TILE_INLINE int tile_read_cluster_rank() { unsigned rank; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank)); return (int)rank; }
//@ tile_pack_f16
TILE_INLINE unsigned tile_pack_f16(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low)); return word; }
//@ tile_pack_bf16
TILE_INLINE unsigned tile_pack_bf16(float low, float high) { unsigned word; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low)); return word; }
//@ tile_join_f16
TILE_INLINE unsigned tile_join_f16(f16 low, f16 high) { unsigned word; asm("mov.b32 %0, {%1, %2};" : "=r"(word) : "h"(low.bits), "h"(high.bits)); return word; }
//@ tile_join_bf16
TILE_INLINE unsigned tile_join_bf16(bf16 low, bf16 high) { unsigned word; asm("mov.b32 %0, {%1, %2};" : "=r"(word) : "h"(low.bits), "h"(high.bits)); return word; }
//@ tile_half_f16
TILE_INLINE f16 tile_half_f16(unsigned word, bool high) { f16 y; y.bits = (unsigned short)(high ? word >> 16 : word); return y; }
//@ tile_half_bf16
TILE_INLINE bf16 tile_half_bf16(unsigned word, bool high) { bf16 y; y.bits = (unsigned short)(high ? word >> 16 : word); return y; }
//@ tile_unpack_f16
TILE_INLINE float tile_unpack_f16(unsigned word, bool high) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)(high ? word >> 16 : word))); return y; }
//@ tile_unpack_bf16
TILE_INLINE float tile_unpack_bf16(unsigned word, bool high) { return __uint_as_float(high ? word & 0xffff0000u : word << 16); }
//@ transpose_matrix
TILE_INLINE unsigned transpose_matrix(unsigned word) { unsigned y; asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(word)); return y; }
//@ load_matrix_x1
TILE_INLINE void load_matrix_x1(unsigned* to, unsigned from) { asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(to[0]) : "r"(from) : "memory"); }
//@ load_matrix_x2
TILE_INLINE void load_matrix_x2(unsigned* to, unsigned from) { asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from) : "memory"); }
//@ load_matrix_x4
TILE_INLINE void load_matrix_x4(unsigned* to, unsigned from) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory"); }
//@ load_matrix_x1_transposed
TILE_INLINE void load_matrix_x1_transposed(unsigned* to, unsigned from) { asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(to[0]) : "r"(from) : "memory"); }
//@ load_matrix_x2_transposed
TILE_INLINE void load_matrix_x2_transposed(unsigned* to, unsigned from) { asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from) : "memory"); }
//@ load_matrix_x4_transposed
TILE_INLINE void load_matrix_x4_transposed(unsigned* to, unsigned from) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory"); }
//@ store_matrix_x1
TILE_INLINE void store_matrix_x1(unsigned to, const unsigned* from) { asm volatile("stmatrix.sync.aligned.m8n8.x1.shared::cta.b16 [%0], {%1};" :: "r"(to), "r"(from[0]) : "memory"); }
//@ store_matrix_x2
TILE_INLINE void store_matrix_x2(unsigned to, const unsigned* from) { asm volatile("stmatrix.sync.aligned.m8n8.x2.shared::cta.b16 [%0], {%1, %2};" :: "r"(to), "r"(from[0]), "r"(from[1]) : "memory"); }
//@ store_matrix_x4
TILE_INLINE void store_matrix_x4(unsigned to, const unsigned* from) { asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" :: "r"(to), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]) : "memory"); }
//@ store_matrix_x1_transposed
TILE_INLINE void store_matrix_x1_transposed(unsigned to, const unsigned* from) { asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared::cta.b16 [%0], {%1};" :: "r"(to), "r"(from[0]) : "memory"); }
//@ store_matrix_x2_transposed
TILE_INLINE void store_matrix_x2_transposed(unsigned to, const unsigned* from) { asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 [%0], {%1, %2};" :: "r"(to), "r"(from[0]), "r"(from[1]) : "memory"); }
//@ store_matrix_x4_transposed
TILE_INLINE void store_matrix_x4_transposed(unsigned to, const unsigned* from) { asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 [%0], {%1, %2, %3, %4};" :: "r"(to), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]) : "memory"); }
//@ barrier_init
TILE_INLINE void barrier_init(unsigned barrier, unsigned arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(arrivals) : "memory"); }
//@ fence_barrier_init
TILE_INLINE void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
//@ barrier_arrive
TILE_INLINE void barrier_arrive(unsigned barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory"); }
//@ barrier_arrive_in
TILE_INLINE void barrier_arrive_in(unsigned barrier, unsigned block) { asm volatile("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [r];\n}" :: "r"(barrier), "r"(block) : "memory"); }
//@ barrier_expect
TILE_INLINE void barrier_expect(unsigned barrier, unsigned bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory"); }
//@ barrier_wait
TILE_INLINE void barrier_wait(unsigned barrier, unsigned parity) { asm volatile("{\n.reg .pred P;\nW:\nmbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1;\n@P bra D;\nbra W;\nD:\n}" :: "r"(barrier), "r"(parity) : "memory"); }
//@ bulk_load_hint
TILE_INLINE void bulk_load_hint(unsigned to, const void* from, unsigned bytes, unsigned barrier, unsigned long long hint) { asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" :: "r"(to), "l"(from), "r"(bytes), "r"(barrier), "l"(hint) : "memory"); }
//@ bulk_load
TILE_INLINE void bulk_load(unsigned to, const void* from, unsigned bytes, unsigned barrier) { asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory"); }
//@ cluster_store16
TILE_INLINE void cluster_store16(unsigned to, unsigned block, const void* from, unsigned barrier) { const uint4 v = *(const uint4*)from; asm volatile("{\n.reg .b32 t, b;\nmapa.shared::cluster.u32 t, %0, %1;\nmapa.shared::cluster.u32 b, %2, %1;\nst.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [t], {%3, %4, %5, %6}, [b];\n}" :: "r"(to), "r"(block), "r"(barrier), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory"); }
//@ cluster_store8
TILE_INLINE void cluster_store8(unsigned to, unsigned block, const void* from, unsigned barrier) { const uint2 v = *(const uint2*)from; asm volatile("{\n.reg .b32 t, b;\nmapa.shared::cluster.u32 t, %0, %1;\nmapa.shared::cluster.u32 b, %2, %1;\nst.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [t], {%3, %4}, [b];\n}" :: "r"(to), "r"(block), "r"(barrier), "r"(v.x), "r"(v.y) : "memory"); }
//@ cluster_store4
TILE_INLINE void cluster_store4(unsigned to, unsigned block, const void* from, unsigned barrier) { const unsigned v = *(const unsigned*)from; asm volatile("{\n.reg .b32 t, b;\nmapa.shared::cluster.u32 t, %0, %1;\nmapa.shared::cluster.u32 b, %2, %1;\nst.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [t], %3, [b];\n}" :: "r"(to), "r"(block), "r"(barrier), "r"(v) : "memory"); }
//@ bulk_commit
TILE_INLINE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
//@ bulk_wait
template <int pending> TILE_INLINE void bulk_wait() { asm volatile("cp.async.bulk.wait_group %0;" :: "n"(pending) : "memory"); }
//@ bulk_wait_read
template <int pending> TILE_INLINE void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(pending) : "memory"); }
//@ fence_proxy_async
TILE_INLINE void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
//@ tensor_prefetch
TILE_INLINE void tensor_prefetch(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory"); }
//@ named_barrier_sync
template <int id, int threads> TILE_INLINE void named_barrier_sync() { asm volatile("bar.sync %0, %1;" :: "n"(id), "n"(threads) : "memory"); }
//@ named_barrier_arrive
template <int id, int threads> TILE_INLINE void named_barrier_arrive() { asm volatile("bar.arrive %0, %1;" :: "n"(id), "n"(threads) : "memory"); }
//@ cluster_barrier
TILE_INLINE void cluster_barrier() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
//@ cluster_barrier_relaxed
TILE_INLINE void cluster_barrier_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
//@ cluster_arrive
TILE_INLINE void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
//@ cluster_wait
TILE_INLINE void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
//@ tile_raise_registers
template <int count> TILE_INLINE void tile_raise_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(count)); }
//@ tile_lower_registers
template <int count> TILE_INLINE void tile_lower_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(count)); }
//@ wgmma_fence
TILE_INLINE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
//@ wgmma_commit
TILE_INLINE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
//@ wgmma_wait
template <int pending> TILE_INLINE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(pending) : "memory"); }
//@ tile_pin_f
template <int count> TILE_INLINE void tile_pin_f(float (&array)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(array[i]) :: "memory");
}
//@ tile_pin_r
template <int count, class T> TILE_INLINE void tile_pin_r(T (&array)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(array[i]) :: "memory");
}
//@ tile_say
// One record in the device's log, which the host reads: see tile-runtime/src/cuda/log.rs. The lanes that come here together claim
// their records at once. Nothing is waited for: where the log is full, what does not fit is counted.
static __device__ __noinline__ void tile_say(unsigned* log, unsigned function, unsigned message, unsigned long long argument0 = 0, unsigned long long argument1 = 0, unsigned long long argument2 = 0, unsigned long long argument3 = 0, unsigned long long argument4 = 0, unsigned long long argument5 = 0, unsigned long long argument6 = 0, unsigned long long argument7 = 0) {
  volatile unsigned* const host = *(unsigned* const*)(log + 2);
  const unsigned capacity = log[4], lanes = __activemask(), first = __ffs(lanes) - 1, wanted = __popc(lanes);
  unsigned lane, claim = 0, taken = 0;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  const unsigned place = __popc(lanes & ((1u << lane) - 1u));
  if (lane == first) {
    const unsigned read = host[0];
    unsigned next = *(volatile unsigned*)log;
    do {
      claim = next;
      taken = min(wanted, capacity - min(claim - read, capacity));
    } while (taken > 0 && (next = atomicCAS(log, claim, claim + taken)) != claim);
    if (taken < wanted) atomicAdd(log + 1, wanted - taken);
  }
  claim = __shfl_sync(lanes, claim, first) + place;
  if (place >= __shfl_sync(lanes, taken, first)) return;
  volatile unsigned* const record = host + 32 * (1 + claim % capacity);
  record[1] = function; record[2] = message;
  record[3] = blockIdx.x; record[4] = blockIdx.y; record[5] = blockIdx.z;
  record[6] = threadIdx.x; record[7] = threadIdx.y; record[8] = threadIdx.z;
  const unsigned long long words[8] = {argument0, argument1, argument2, argument3, argument4, argument5, argument6, argument7};
#pragma unroll
  for (int i = 0; i < 8; ++i) { record[16 + 2 * i] = (unsigned)words[i]; record[17 + 2 * i] = (unsigned)(words[i] >> 32); }
  __threadfence_system();
  record[0] = claim + 1u;
}
