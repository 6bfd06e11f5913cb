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
//@ store16
TILE_INLINE void store16(void* to, const void* from) { *(uint4*)to = *(const uint4*)from; }
//@ store8
TILE_INLINE void store8(void* to, const void* from) { *(uint2*)to = *(const uint2*)from; }
//@ store4
TILE_INLINE void store4(void* to, const void* from) { *(unsigned*)to = *(const unsigned*)from; }
//@ store2
TILE_INLINE void store2(void* to, const void* from) { *(unsigned short*)to = *(const unsigned short*)from; }
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
