#include "textflag.h"

// The kernels of floats take n of them, n a multiple of eight, and keep four sums
// of eight lanes, so that loads and not additions set the pace.

// Adds the products of eight floats to sum.
#define PRODUCTS(at, floats, sum) \
	VFMADD231PS at, floats, sum

// Adds the squares of eight differences to sum.
#define SQUARES(at, floats, sum) \
	VSUBPS at, floats, floats; \
	VFMADD231PS floats, floats, sum

#define KERNEL(ADD) \
	MOVQ a+0(FP), SI; \
	MOVQ b+8(FP), DI; \
	MOVQ n+16(FP), CX; \
	VXORPS Y0, Y0, Y0; \
	VXORPS Y1, Y1, Y1; \
	VXORPS Y2, Y2, Y2; \
	VXORPS Y3, Y3, Y3; \
by32: \
	CMPQ CX, $32; \
	JLT by8; \
	VMOVUPS (SI), Y4; \
	VMOVUPS 32(SI), Y5; \
	VMOVUPS 64(SI), Y6; \
	VMOVUPS 96(SI), Y7; \
	ADD((DI), Y4, Y0); \
	ADD(32(DI), Y5, Y1); \
	ADD(64(DI), Y6, Y2); \
	ADD(96(DI), Y7, Y3); \
	ADDQ $128, SI; \
	ADDQ $128, DI; \
	SUBQ $32, CX; \
	JMP by32; \
by8: \
	CMPQ CX, $8; \
	JLT total; \
	VMOVUPS (SI), Y4; \
	ADD((DI), Y4, Y0); \
	ADDQ $32, SI; \
	ADDQ $32, DI; \
	SUBQ $8, CX; \
	JMP by8; \
total: \
	VADDPS Y1, Y0, Y0; \
	VADDPS Y3, Y2, Y2; \
	VADDPS Y2, Y0, Y0; \
	VEXTRACTF128 $1, Y0, X1; \
	VADDPS X1, X0, X0; \
	VHADDPS X0, X0, X0; \
	VHADDPS X0, X0, X0; \
	VZEROUPPER; \
	MOVSS X0, ret+24(FP); \
	RET

// func dotAVX2(a, b *float32, n int) float32
TEXT ·dotAVX2(SB), NOSPLIT, $0-28
	KERNEL(PRODUCTS)

// func distanceAVX2(a, b *float32, n int) float32
TEXT ·distanceAVX2(SB), NOSPLIT, $0-28
	KERNEL(SQUARES)

// func codeProductsAVX2(query *int16, codes *int8, stride, rows int, out *int32)
TEXT ·codeProductsAVX2(SB), NOSPLIT, $0-40
	MOVQ query+0(FP), SI
	MOVQ codes+8(FP), DI
	MOVQ stride+16(FP), DX
	MOVQ rows+24(FP), BX
	MOVQ out+32(FP), R8

row:
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	MOVQ  SI, R9
	MOVQ  DX, CX

by32:
	VPMOVSXBW (DI), Y2
	VPMOVSXBW 16(DI), Y3
	VPMADDWD  (R9), Y2, Y2
	VPMADDWD  32(R9), Y3, Y3
	VPADDD    Y2, Y0, Y0
	VPADDD    Y3, Y1, Y1
	ADDQ      $32, DI
	ADDQ      $64, R9
	SUBQ      $32, CX
	JNZ       by32

	VPADDD       Y1, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPADDD       X1, X0, X0
	VPSHUFD      $0x4e, X0, X1
	VPADDD       X1, X0, X0
	VPSHUFD      $0xb1, X0, X1
	VPADDD       X1, X0, X0
	VMOVD        X0, (R8)
	ADDQ         $4, R8
	DECQ         BX
	JNZ          row
	VZEROUPPER
	RET
