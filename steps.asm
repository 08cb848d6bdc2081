	.file	"<string>"
	.section	.rodata.cst4,"aM",@progbits,4
	.p2align	2, 0x0
.LCPI0_0:
	.long	0x3727c5ac
	.section	.ltext,"axl",@progbits
	.globl	_ZN8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE
	.p2align	4
	.type	_ZN8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE,@function
_ZN8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE:
	pushq	%rbp
	pushq	%r15
	pushq	%r14
	pushq	%r13
	pushq	%r12
	pushq	%rbx
	subq	$40, %rsp
	cmpq	$0, 264(%rsp)
	movq	%rdi, 16(%rsp)
	jle	.LBB0_1
	movabsq	$.LCPI0_0, %rax
	leaq	32(%rsp), %rbx
	movq	%r9, %r14
	movq	%r8, %r15
	movq	%rcx, %r13
	movq	%rdx, %rbp
	movq	%rsi, 8(%rsp)
	xorl	%r12d, %r12d
	vmovss	(%rax), %xmm0
	vmovss	%xmm0, 4(%rsp)
	vxorpd	%xmm0, %xmm0, %xmm0
	.p2align	4
.LBB0_3:
	movq	240(%rsp), %rax
	vmovss	4(%rsp), %xmm1
	vmovsd	%xmm0, 24(%rsp)
	vxorpd	%xmm0, %xmm0, %xmm0
	movq	%rsp, %rdi
	movq	%rbx, %rsi
	movq	%rbp, %rdx
	movq	%r13, %rcx
	movq	%r15, %r8
	movq	%r14, %r9
	movq	(%rax,%r12,8), %rax
	movl	$0, (%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	392(%rsp)
	pushq	%rax
	pushq	336(%rsp)
	pushq	336(%rsp)
	pushq	336(%rsp)
	pushq	336(%rsp)
	pushq	336(%rsp)
	pushq	336(%rsp)
	pushq	336(%rsp)
	pushq	336(%rsp)
	pushq	336(%rsp)
	pushq	$5
	pushq	344(%rsp)
	pushq	344(%rsp)
	pushq	344(%rsp)
	pushq	344(%rsp)
	pushq	344(%rsp)
	movabsq	$_ZN9chainrule7vectors11row_kernels4stepB2v2B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedExff5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE, %rax
	callq	*%rax
	addq	$256, %rsp
	testl	%eax, %eax
	jne	.LBB0_6
	vmovss	(%rsp), %xmm0
	vmovsd	24(%rsp), %xmm1
	incq	%r12
	vcvtss2sd	%xmm0, %xmm0, %xmm0
	vaddsd	%xmm0, %xmm1, %xmm0
	cmpq	%r12, 264(%rsp)
	jne	.LBB0_3
	jmp	.LBB0_5
.LBB0_1:
	vxorpd	%xmm0, %xmm0, %xmm0
.LBB0_5:
	movq	16(%rsp), %rax
	vmovsd	%xmm0, (%rax)
	xorl	%eax, %eax
	jmp	.LBB0_7
.LBB0_6:
	movq	8(%rsp), %rcx
	movq	$0, (%rcx)
.LBB0_7:
	addq	$40, %rsp
	popq	%rbx
	popq	%r12
	popq	%r13
	popq	%r14
	popq	%r15
	popq	%rbp
	retq
.Lfunc_end0:
	.size	_ZN8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE, .Lfunc_end0-_ZN8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE

	.globl	_ZN7cpython8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE
	.p2align	4
	.type	_ZN7cpython8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE,@function
_ZN7cpython8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	pushq	%r15
	.cfi_def_cfa_offset 24
	pushq	%r14
	.cfi_def_cfa_offset 32
	pushq	%r13
	.cfi_def_cfa_offset 40
	pushq	%r12
	.cfi_def_cfa_offset 48
	pushq	%rbx
	.cfi_def_cfa_offset 56
	subq	$648, %rsp
	.cfi_def_cfa_offset 704
	.cfi_offset %rbx, -56
	.cfi_offset %r12, -48
	.cfi_offset %r13, -40
	.cfi_offset %r14, -32
	.cfi_offset %r15, -24
	.cfi_offset %rbp, -16
	leaq	208(%rsp), %r10
	movq	%rsi, %rdi
	leaq	216(%rsp), %r11
	leaq	224(%rsp), %rbx
	leaq	232(%rsp), %r14
	movabsq	$.const.steps, %rsi
	movabsq	$PyArg_UnpackTuple, %r15
	leaq	248(%rsp), %r8
	leaq	240(%rsp), %r9
	movl	$6, %edx
	movl	$6, %ecx
	xorl	%eax, %eax
	pushq	%r10
	.cfi_adjust_cfa_offset 8
	pushq	%r11
	.cfi_adjust_cfa_offset 8
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	pushq	%r14
	.cfi_adjust_cfa_offset 8
	callq	*%r15
	addq	$32, %rsp
	.cfi_adjust_cfa_offset -32
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%zmm0, 256(%rsp)
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 336(%rsp)
	movq	$0, 320(%rsp)
	vmovups	%ymm0, 360(%rsp)
	movq	$0, 16(%rsp)
	movq	$0, 32(%rsp)
	testl	%eax, %eax
	je	.LBB1_1
	movabsq	$_ZN08NumbaEnv8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE, %rax
	cmpq	$0, (%rax)
	je	.LBB1_4
	movq	248(%rsp), %rdi
	movabsq	$numba_adapt_ndarray, %rax
	leaq	480(%rsp), %rsi
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%zmm0, 480(%rsp)
	movq	$0, 544(%rsp)
	movq	%rax, %rbp
	vzeroupper
	callq	*%rax
	cmpq	$4, 504(%rsp)
	setne	%cl
	testl	%eax, %eax
	setne	%bl
	orb	%cl, %bl
	cmpb	$1, %bl
	je	.LBB1_7
	testb	%bl, %bl
	jne	.LBB1_1
.LBB1_9:
	movq	480(%rsp), %rax
	movq	528(%rsp), %rdx
	movq	536(%rsp), %rcx
	movq	240(%rsp), %rdi
	movq	488(%rsp), %r14
	movq	496(%rsp), %r15
	movq	512(%rsp), %r12
	movq	520(%rsp), %r13
	leaq	400(%rsp), %rsi
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%zmm0, 400(%rsp)
	movq	$0, 464(%rsp)
	movq	%rax, 184(%rsp)
	movq	544(%rsp), %rax
	movq	%rdx, 8(%rsp)
	movq	%rcx, 200(%rsp)
	movq	%rax, 192(%rsp)
	vzeroupper
	callq	*%rbp
	cmpq	$4, 424(%rsp)
	setne	%cl
	testl	%eax, %eax
	setne	%bl
	orb	%cl, %bl
	cmpb	$1, %bl
	je	.LBB1_10
	testb	%bl, %bl
	jne	.LBB1_1
.LBB1_12:
	movq	416(%rsp), %rcx
	movq	408(%rsp), %rax
	movq	432(%rsp), %rdx
	movq	232(%rsp), %rdi
	movq	400(%rsp), %rbx
	leaq	592(%rsp), %rsi
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 592(%rsp)
	vmovups	%ymm0, 616(%rsp)
	movq	%rcx, 168(%rsp)
	movq	440(%rsp), %rcx
	movq	%rax, 176(%rsp)
	movq	%rdx, 160(%rsp)
	movq	448(%rsp), %rdx
	movq	464(%rsp), %rax
	movq	%rcx, 152(%rsp)
	movq	456(%rsp), %rcx
	movq	%rdx, 144(%rsp)
	movq	%rax, 128(%rsp)
	movq	%rcx, 136(%rsp)
	vzeroupper
	callq	*%rbp
	testl	%eax, %eax
	jne	.LBB1_14
	cmpq	$8, 616(%rsp)
	jne	.LBB1_14
	movq	624(%rsp), %rax
	movq	224(%rsp), %rdi
	movq	%r13, 120(%rsp)
	movq	%rax, 112(%rsp)
	movabsq	$PyNumber_Long, %rax
	callq	*%rax
	testq	%rax, %rax
	je	.LBB1_16
	movq	%rax, %r13
	movabsq	$PyLong_AsLongLong, %rax
	movq	%r13, %rdi
	callq	*%rax
	movq	%rax, 24(%rsp)
	movabsq	$Py_DecRef, %rax
	movq	%r13, %rdi
	callq	*%rax
	movabsq	$PyErr_Occurred, %rax
	callq	*%rax
	testq	%rax, %rax
	jne	.LBB1_1
.LBB1_19:
	movq	216(%rsp), %rdi
	leaq	256(%rsp), %rsi
	vxorps	%xmm0, %xmm0, %xmm0
	movq	%rbx, 104(%rsp)
	vmovups	%zmm0, 256(%rsp)
	movq	$0, 320(%rsp)
	vzeroupper
	callq	*%rbp
	cmpq	$4, 280(%rsp)
	setne	%cl
	testl	%eax, %eax
	setne	%bl
	orb	%cl, %bl
	cmpb	$1, %bl
	je	.LBB1_20
	testb	%bl, %bl
	jne	.LBB1_1
.LBB1_22:
	movq	304(%rsp), %rax
	movq	312(%rsp), %rcx
	movq	208(%rsp), %rdi
	movq	%r12, 80(%rsp)
	movq	%r15, 88(%rsp)
	movq	%r14, 96(%rsp)
	movq	256(%rsp), %rbx
	movq	264(%rsp), %r12
	movq	272(%rsp), %r13
	movq	288(%rsp), %r14
	movq	296(%rsp), %r15
	leaq	336(%rsp), %rsi
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 336(%rsp)
	vmovups	%ymm0, 360(%rsp)
	movq	%rax, 72(%rsp)
	movq	320(%rsp), %rax
	movq	%rcx, 64(%rsp)
	movq	%rax, 56(%rsp)
	vzeroupper
	callq	*%rbp
	testl	%eax, %eax
	jne	.LBB1_14
	cmpq	$4, 360(%rsp)
	jne	.LBB1_14
	vmovaps	336(%rsp), %xmm0
	vmovaps	368(%rsp), %xmm1
	movq	%rbx, 40(%rsp)
	movq	352(%rsp), %rbp
	movq	384(%rsp), %rbx
	movabsq	$PyEval_SaveThread, %rax
	vmovaps	%xmm0, 576(%rsp)
	vmovaps	%xmm1, 560(%rsp)
	callq	*%rax
	movq	%rax, 48(%rsp)
	movq	$0, 16(%rsp)
	subq	$304, %rsp
	.cfi_adjust_cfa_offset 304
	vmovaps	864(%rsp), %xmm0
	movq	%rbx, 296(%rsp)
	leaq	320(%rsp), %rdi
	leaq	336(%rsp), %rsi
	movl	$4, %r9d
	vmovups	%xmm0, 280(%rsp)
	movq	%rbp, 264(%rsp)
	vmovaps	880(%rsp), %xmm0
	vmovups	%xmm0, 248(%rsp)
	movq	%r15, 216(%rsp)
	movq	%r14, 208(%rsp)
	movq	%r13, 192(%rsp)
	movq	%r12, 184(%rsp)
	movq	$4, 272(%rsp)
	movq	$4, 200(%rsp)
	movq	$4, 64(%rsp)
	movq	368(%rsp), %rdx
	movq	376(%rsp), %rcx
	movq	360(%rsp), %rax
	movq	392(%rsp), %r8
	movq	%rdx, 232(%rsp)
	movq	%rcx, 224(%rsp)
	movq	344(%rsp), %rdx
	movq	328(%rsp), %rcx
	movq	%rax, 240(%rsp)
	movabsq	$_ZN8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE, %rax
	movq	%rdx, 176(%rsp)
	movq	%rcx, 168(%rsp)
	movq	416(%rsp), %rdx
	movq	432(%rsp), %rcx
	movq	%rdx, 144(%rsp)
	movq	%rcx, 104(%rsp)
	movq	440(%rsp), %rdx
	movq	448(%rsp), %rcx
	movq	%rdx, 96(%rsp)
	movq	%rcx, 88(%rsp)
	movq	456(%rsp), %rdx
	movq	464(%rsp), %rcx
	movq	%rdx, 80(%rsp)
	movq	%rcx, 72(%rsp)
	movq	472(%rsp), %rdx
	movq	480(%rsp), %rcx
	movq	%rdx, 56(%rsp)
	movq	%rcx, 48(%rsp)
	movq	408(%rsp), %rdx
	movq	496(%rsp), %rcx
	movq	%rdx, 40(%rsp)
	movq	%rcx, 32(%rsp)
	movq	504(%rsp), %rdx
	movq	312(%rsp), %rcx
	movq	%rdx, 24(%rsp)
	movq	%rcx, 16(%rsp)
	movq	424(%rsp), %rdx
	movq	384(%rsp), %rcx
	movq	%rdx, 8(%rsp)
	movq	%rcx, (%rsp)
	movq	488(%rsp), %rdx
	movq	400(%rsp), %rcx
	callq	*%rax
	addq	$304, %rsp
	.cfi_adjust_cfa_offset -304
	vmovsd	16(%rsp), %xmm0
	movq	48(%rsp), %rdi
	movq	32(%rsp), %r14
	movl	%eax, %ebx
	movabsq	$PyEval_RestoreThread, %rax
	vmovsd	%xmm0, 8(%rsp)
	callq	*%rax
	testl	%ebx, %ebx
	jne	.LBB1_25
	vmovsd	8(%rsp), %xmm0
	movabsq	$PyFloat_FromDouble, %rax
	callq	*%rax
.LBB1_2:
	addq	$648, %rsp
	.cfi_def_cfa_offset 56
	popq	%rbx
	.cfi_def_cfa_offset 48
	popq	%r12
	.cfi_def_cfa_offset 40
	popq	%r13
	.cfi_def_cfa_offset 32
	popq	%r14
	.cfi_def_cfa_offset 24
	popq	%r15
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_def_cfa_offset 8
	vzeroupper
	retq
.LBB1_14:
	.cfi_def_cfa_offset 704
	movabsq	$PyExc_TypeError, %rdi
	movabsq	$".const.can't unbox array from PyObject into native value.  The object maybe of a different type", %rsi
	jmp	.LBB1_5
.LBB1_25:
	jle	.LBB1_29
	movabsq	$PyErr_Clear, %rax
	callq	*%rax
	movl	8(%r14), %esi
	movq	(%r14), %rdi
	cmpl	$0, 32(%r14)
	jle	.LBB1_32
	movslq	%esi, %rsi
	movabsq	$PyBytes_FromStringAndSize, %rax
	callq	*%rax
	movq	16(%r14), %rdi
	movq	%rax, %rbx
	callq	*24(%r14)
	testq	%rax, %rax
	je	.LBB1_28
	movabsq	$numba_runtime_build_excinfo_struct, %rcx
	movq	%rbx, %rdi
	movq	%rax, %rsi
	callq	*%rcx
	jmp	.LBB1_33
.LBB1_4:
	movabsq	$PyExc_RuntimeError, %rdi
	movabsq	$".const.missing Environment: _ZN08NumbaEnv8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE", %rsi
.LBB1_5:
	movabsq	$PyErr_SetString, %rax
	vzeroupper
	callq	*%rax
	jmp	.LBB1_1
.LBB1_7:
	movabsq	$PyExc_TypeError, %rdi
	movabsq	$".const.can't unbox array from PyObject into native value.  The object maybe of a different type", %rsi
	movabsq	$PyErr_SetString, %rax
	callq	*%rax
	testb	%bl, %bl
	je	.LBB1_9
	jmp	.LBB1_1
.LBB1_10:
	movabsq	$PyExc_TypeError, %rdi
	movabsq	$".const.can't unbox array from PyObject into native value.  The object maybe of a different type", %rsi
	movabsq	$PyErr_SetString, %rax
	callq	*%rax
	testb	%bl, %bl
	je	.LBB1_12
	jmp	.LBB1_1
.LBB1_16:
	movq	$0, 24(%rsp)
	movabsq	$PyErr_Occurred, %rax
	callq	*%rax
	testq	%rax, %rax
	je	.LBB1_19
	jmp	.LBB1_1
.LBB1_20:
	movabsq	$PyExc_TypeError, %rdi
	movabsq	$".const.can't unbox array from PyObject into native value.  The object maybe of a different type", %rsi
	movabsq	$PyErr_SetString, %rax
	callq	*%rax
	testb	%bl, %bl
	je	.LBB1_22
	jmp	.LBB1_1
.LBB1_29:
	cmpl	$-3, %ebx
	je	.LBB1_35
	cmpl	$-1, %ebx
	je	.LBB1_1
	movabsq	$PyExc_SystemError, %rdi
	movabsq	$".const.unknown error when calling native function", %rsi
	jmp	.LBB1_5
.LBB1_32:
	movq	16(%r14), %rdx
	movabsq	$numba_unpickle, %rax
	callq	*%rax
.LBB1_33:
	testq	%rax, %rax
	je	.LBB1_1
	movabsq	$numba_do_raise, %rcx
	movq	%rax, %rdi
	callq	*%rcx
.LBB1_1:
	xorl	%eax, %eax
	jmp	.LBB1_2
.LBB1_35:
	movabsq	$PyExc_StopIteration, %rdi
	movabsq	$PyErr_SetNone, %rax
	callq	*%rax
	jmp	.LBB1_1
.LBB1_28:
	movabsq	$PyExc_RuntimeError, %rdi
	movabsq	$".const.Error creating Python tuple from runtime exception arguments", %rsi
	jmp	.LBB1_5
.Lfunc_end1:
	.size	_ZN7cpython8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE, .Lfunc_end1-_ZN7cpython8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE
	.cfi_endproc

	.section	.rodata.cst4,"aM",@progbits,4
	.p2align	2, 0x0
.LCPI2_0:
	.long	0x3f800000
.LCPI2_1:
	.long	0x41800000
.LCPI2_2:
	.long	0xc1800000
.LCPI2_3:
	.long	0x43000000
	.section	.ltext,"axl",@progbits
	.weak	_ZN9chainrule7vectors11row_kernels4stepB2v2B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedExff5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE
	.p2align	4
	.type	_ZN9chainrule7vectors11row_kernels4stepB2v2B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedExff5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE,@function
_ZN9chainrule7vectors11row_kernels4stepB2v2B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedExff5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE:
	pushq	%rbp
	pushq	%r15
	pushq	%r14
	pushq	%r13
	pushq	%r12
	pushq	%rbx
	movq	72(%rsp), %r8
	movq	176(%rsp), %rax
	movq	152(%rsp), %r12
	movq	136(%rsp), %r15
	movq	96(%rsp), %rdx
	movq	56(%rsp), %r14
	movq	%rdi, %rbp
	vxorps	%xmm2, %xmm2, %xmm2
	leaq	15(%r8), %rcx
	movq	%rcx, %r13
	shrq	$4, %r13
	testq	%r8, %r8
	setle	%sil
	testq	%r13, %r13
	sete	%dil
	orb	%sil, %dil
	jne	.LBB2_18
	movq	%rdx, %r11
	imulq	%r8, %r11
	movl	%r13d, %r10d
	andl	$7, %r10d
	cmpq	$127, %rcx
	ja	.LBB2_3
	movq	%rax, %rbx
	imulq	%r12, %rbx
	xorl	%esi, %esi
	jmp	.LBB2_16
.LBB2_3:
	movq	%rax, %rbx
	imulq	%r12, %rbx
	addq	$-8, %r13
	leaq	(%r14,%r11,4), %r14
	movq	%r13, %r12
	shrq	$3, %r12
	leaq	(%r15,%rbx,4), %r15
	je	.LBB2_4
	leaq	-1(%r12), %r9
	shrq	%r9
	je	.LBB2_6
	movq	56(%rsp), %rdi
	leaq	(,%r11,4), %rcx
	leaq	(,%rbx,4), %rsi
	incq	%r9
	movq	%rbp, -8(%rsp)
	movq	%r9, %rbp
	andq	$-2, %rbp
	negq	%rbp
	leaq	1984(%rcx,%rdi), %rcx
	movq	136(%rsp), %rdi
	leaq	1984(%rsi,%rdi), %rsi
	xorl	%edi, %edi
	.p2align	4
.LBB2_8:
	vmovups	-1984(%rcx,%rdi,4), %zmm3
	vmovups	-1920(%rcx,%rdi,4), %zmm4
	vmovups	-1856(%rcx,%rdi,4), %zmm5
	vmovups	-1792(%rcx,%rdi,4), %zmm6
	addq	$2, %rbp
	vfmadd132ps	-1984(%rsi,%rdi,4), %zmm2, %zmm3
	vmovups	-1728(%rcx,%rdi,4), %zmm2
	vfmadd231ps	-1920(%rsi,%rdi,4), %zmm4, %zmm3
	vmovups	-64(%rcx,%rdi,4), %zmm4
	vfmadd231ps	-1856(%rsi,%rdi,4), %zmm5, %zmm3
	vfmadd231ps	-1792(%rsi,%rdi,4), %zmm6, %zmm3
	vfmadd132ps	-1728(%rsi,%rdi,4), %zmm3, %zmm2
	vmovups	-1664(%rcx,%rdi,4), %zmm3
	vfmadd132ps	-1664(%rsi,%rdi,4), %zmm2, %zmm3
	vmovups	-1600(%rcx,%rdi,4), %zmm2
	vfmadd132ps	-1600(%rsi,%rdi,4), %zmm3, %zmm2
	vmovups	-1536(%rcx,%rdi,4), %zmm3
	vfmadd132ps	-1536(%rsi,%rdi,4), %zmm2, %zmm3
	vmovups	-1472(%rcx,%rdi,4), %zmm2
	vfmadd132ps	-1472(%rsi,%rdi,4), %zmm3, %zmm2
	vmovups	-1408(%rcx,%rdi,4), %zmm3
	vfmadd132ps	-1408(%rsi,%rdi,4), %zmm2, %zmm3
	vmovups	-1344(%rcx,%rdi,4), %zmm2
	vfmadd132ps	-1344(%rsi,%rdi,4), %zmm3, %zmm2
	vmovups	-1280(%rcx,%rdi,4), %zmm3
	vfmadd132ps	-1280(%rsi,%rdi,4), %zmm2, %zmm3
	vmovups	-1216(%rcx,%rdi,4), %zmm2
	vfmadd132ps	-1216(%rsi,%rdi,4), %zmm3, %zmm2
	vmovups	-1152(%rcx,%rdi,4), %zmm3
	vfmadd132ps	-1152(%rsi,%rdi,4), %zmm2, %zmm3
	vmovups	-1088(%rcx,%rdi,4), %zmm2
	vfmadd132ps	-1088(%rsi,%rdi,4), %zmm3, %zmm2
	vmovups	-1024(%rcx,%rdi,4), %zmm3
	vfmadd132ps	-1024(%rsi,%rdi,4), %zmm2, %zmm3
	vmovups	-960(%rcx,%rdi,4), %zmm2
	vfmadd132ps	-960(%rsi,%rdi,4), %zmm3, %zmm2
	vmovups	-896(%rcx,%rdi,4), %zmm3
	vfmadd132ps	-896(%rsi,%rdi,4), %zmm2, %zmm3
	vmovups	-832(%rcx,%rdi,4), %zmm2
	vfmadd132ps	-832(%rsi,%rdi,4), %zmm3, %zmm2
	vmovups	-768(%rcx,%rdi,4), %zmm3
	vfmadd132ps	-768(%rsi,%rdi,4), %zmm2, %zmm3
	vmovups	-704(%rcx,%rdi,4), %zmm2
	vfmadd132ps	-704(%rsi,%rdi,4), %zmm3, %zmm2
	vmovups	-640(%rcx,%rdi,4), %zmm3
	vfmadd132ps	-640(%rsi,%rdi,4), %zmm2, %zmm3
	vmovups	-576(%rcx,%rdi,4), %zmm2
	vfmadd132ps	-576(%rsi,%rdi,4), %zmm3, %zmm2
	vmovups	-512(%rcx,%rdi,4), %zmm3
	vfmadd132ps	-512(%rsi,%rdi,4), %zmm2, %zmm3
	vmovups	-448(%rcx,%rdi,4), %zmm2
	vfmadd132ps	-448(%rsi,%rdi,4), %zmm3, %zmm2
	vmovups	-384(%rcx,%rdi,4), %zmm3
	vfmadd132ps	-384(%rsi,%rdi,4), %zmm2, %zmm3
	vmovups	-320(%rcx,%rdi,4), %zmm2
	vfmadd132ps	-320(%rsi,%rdi,4), %zmm3, %zmm2
	vmovups	-256(%rcx,%rdi,4), %zmm3
	vfmadd132ps	-256(%rsi,%rdi,4), %zmm2, %zmm3
	vmovups	-192(%rcx,%rdi,4), %zmm2
	vfmadd132ps	-192(%rsi,%rdi,4), %zmm3, %zmm2
	vmovups	-128(%rcx,%rdi,4), %zmm3
	vfmadd132ps	-128(%rsi,%rdi,4), %zmm2, %zmm3
	vmovups	(%rcx,%rdi,4), %zmm2
	vfmadd132ps	-64(%rsi,%rdi,4), %zmm3, %zmm4
	vfmadd132ps	(%rsi,%rdi,4), %zmm4, %zmm2
	leaq	512(%rdi), %rdi
	jne	.LBB2_8
	movq	-8(%rsp), %rbp
	testb	$1, %r9b
	jne	.LBB2_10
	testb	$8, %r13b
	je	.LBB2_12
	jmp	.LBB2_14
.LBB2_4:
	xorl	%r12d, %r12d
	jmp	.LBB2_13
.LBB2_6:
	xorl	%edi, %edi
.LBB2_10:
	vmovups	(%r14,%rdi,4), %zmm3
	vmovups	64(%r14,%rdi,4), %zmm4
	vmovups	128(%r14,%rdi,4), %zmm5
	vmovups	192(%r14,%rdi,4), %zmm6
	vfmadd132ps	(%r15,%rdi,4), %zmm2, %zmm3
	vmovups	256(%r14,%rdi,4), %zmm2
	vfmadd231ps	64(%r15,%rdi,4), %zmm4, %zmm3
	vmovups	896(%r14,%rdi,4), %zmm4
	vfmadd231ps	128(%r15,%rdi,4), %zmm5, %zmm3
	vfmadd231ps	192(%r15,%rdi,4), %zmm6, %zmm3
	vfmadd132ps	256(%r15,%rdi,4), %zmm3, %zmm2
	vmovups	320(%r14,%rdi,4), %zmm3
	vfmadd132ps	320(%r15,%rdi,4), %zmm2, %zmm3
	vmovups	384(%r14,%rdi,4), %zmm2
	vfmadd132ps	384(%r15,%rdi,4), %zmm3, %zmm2
	vmovups	448(%r14,%rdi,4), %zmm3
	vfmadd132ps	448(%r15,%rdi,4), %zmm2, %zmm3
	vmovups	512(%r14,%rdi,4), %zmm2
	vfmadd132ps	512(%r15,%rdi,4), %zmm3, %zmm2
	vmovups	576(%r14,%rdi,4), %zmm3
	vfmadd132ps	576(%r15,%rdi,4), %zmm2, %zmm3
	vmovups	640(%r14,%rdi,4), %zmm2
	vfmadd132ps	640(%r15,%rdi,4), %zmm3, %zmm2
	vmovups	704(%r14,%rdi,4), %zmm3
	vfmadd132ps	704(%r15,%rdi,4), %zmm2, %zmm3
	vmovups	768(%r14,%rdi,4), %zmm2
	vfmadd132ps	768(%r15,%rdi,4), %zmm3, %zmm2
	vmovups	832(%r14,%rdi,4), %zmm3
	vfmadd132ps	832(%r15,%rdi,4), %zmm2, %zmm3
	vmovups	960(%r14,%rdi,4), %zmm2
	vfmadd132ps	896(%r15,%rdi,4), %zmm3, %zmm4
	vfmadd132ps	960(%r15,%rdi,4), %zmm4, %zmm2
	testb	$8, %r13b
	jne	.LBB2_14
.LBB2_12:
	shlq	$7, %r12
	addq	$-128, %r12
	andq	$-256, %r12
	addq	$256, %r12
.LBB2_13:
	vmovups	(%r14,%r12,4), %zmm3
	vmovups	64(%r14,%r12,4), %zmm4
	vmovups	128(%r14,%r12,4), %zmm5
	vmovups	192(%r14,%r12,4), %zmm6
	vfmadd132ps	(%r15,%r12,4), %zmm2, %zmm3
	vmovups	256(%r14,%r12,4), %zmm2
	vfmadd231ps	64(%r15,%r12,4), %zmm4, %zmm3
	vmovups	384(%r14,%r12,4), %zmm4
	vfmadd231ps	128(%r15,%r12,4), %zmm5, %zmm3
	vfmadd231ps	192(%r15,%r12,4), %zmm6, %zmm3
	vfmadd132ps	256(%r15,%r12,4), %zmm3, %zmm2
	vmovups	320(%r14,%r12,4), %zmm3
	vfmadd132ps	320(%r15,%r12,4), %zmm2, %zmm3
	vmovups	448(%r14,%r12,4), %zmm2
	vfmadd132ps	384(%r15,%r12,4), %zmm3, %zmm4
	vfmadd132ps	448(%r15,%r12,4), %zmm4, %zmm2
.LBB2_14:
	movq	136(%rsp), %r15
	movq	56(%rsp), %r14
	movq	152(%rsp), %r12
	testq	%r10, %r10
	je	.LBB2_18
	leaq	-113(%r8), %rsi
	andq	$-128, %rsi
	subq	$-128, %rsi
.LBB2_16:
	addq	%rsi, %rbx
	addq	%rsi, %r11
	shll	$6, %r10d
	xorl	%edi, %edi
	leaq	(%r15,%rbx,4), %rcx
	leaq	(%r14,%r11,4), %rsi
	.p2align	4
.LBB2_17:
	vmovups	(%rsi,%rdi), %zmm3
	vfmadd231ps	(%rcx,%rdi), %zmm3, %zmm2
	addq	$64, %rdi
	cmpq	%rdi, %r10
	jne	.LBB2_17
.LBB2_18:
	vextractf64x4	$1, %zmm2, %ymm3
	movabsq	$.LCPI2_1, %rcx
	vaddps	%ymm3, %ymm2, %ymm2
	vextractf128	$1, %ymm2, %xmm3
	vaddps	%xmm3, %xmm2, %xmm2
	vshufpd	$1, %xmm2, %xmm2, %xmm3
	vaddps	%xmm3, %xmm2, %xmm2
	vmovshdup	%xmm2, %xmm3
	vaddss	%xmm3, %xmm2, %xmm3
	vucomiss	(%rcx), %xmm3
	jae	.LBB2_19
	movabsq	$.LCPI2_2, %rsi
	vxorps	%xmm2, %xmm2, %xmm2
	vmovss	(%rsi), %xmm4
	vucomiss	%xmm3, %xmm4
	ja	.LBB2_30
	vucomiss	%xmm3, %xmm3
	jp	.LBB2_28
	vaddss	(%rcx), %xmm3, %xmm2
	movabsq	$.LCPI2_3, %rcx
	movq	288(%rsp), %rdi
	movq	296(%rsp), %rsi
	vmulss	(%rcx), %xmm2, %xmm2
	vcvttss2si	%xmm2, %rcx
	movq	%rcx, %r9
	sarq	$63, %r9
	leaq	(%rdi,%rcx,4), %rdi
	vcvtsi2ss	%rcx, %xmm15, %xmm4
	andq	%rsi, %r9
	vmovss	(%rdi,%r9,4), %xmm3
	xorl	%r9d, %r9d
	cmpq	$-1, %rcx
	cmovlq	%rsi, %r9
	vsubss	%xmm4, %xmm2, %xmm2
	vmovss	4(%rdi,%r9,4), %xmm4
	vsubss	%xmm3, %xmm4, %xmm4
	vmulss	%xmm4, %xmm2, %xmm2
	vaddss	%xmm2, %xmm3, %xmm2
	jmp	.LBB2_30
.LBB2_19:
	movabsq	$.LCPI2_0, %rcx
	vmovss	(%rcx), %xmm2
.LBB2_30:
	leaq	15(%r12), %rcx
	movq	%rcx, %r10
	shrq	$4, %r10
	testq	%r12, %r12
	setle	%sil
	testq	%r10, %r10
	sete	%dil
	orb	%sil, %dil
	jne	.LBB2_25
	vsubss	%xmm2, %xmm0, %xmm0
	movq	216(%rsp), %r11
	imulq	%r12, %rax
	andl	$7, %r10d
	vmulss	%xmm0, %xmm1, %xmm0
	vbroadcastss	%xmm0, %zmm0
	cmpq	$127, %rcx
	ja	.LBB2_20
	imulq	%r8, %rdx
	xorl	%r8d, %r8d
	jmp	.LBB2_23
.LBB2_20:
	imulq	%r8, %rdx
	shrq	$7, %rcx
	leaq	448(%r15,%rax,4), %rsi
	xorl	%r8d, %r8d
	shlq	$3, %rcx
	leaq	448(%r14,%rdx,4), %rdi
	.p2align	4
.LBB2_21:
	vmovups	-448(%rsi,%r8,4), %zmm1
	vmovups	(%r11,%r8,4), %zmm3
	addq	$-8, %rcx
	vfmadd231ps	%zmm1, %zmm0, %zmm3
	vmovups	%zmm3, (%r11,%r8,4)
	vfmadd231ps	-448(%rdi,%r8,4), %zmm0, %zmm1
	vmovups	%zmm1, -448(%rsi,%r8,4)
	vmovups	-384(%rsi,%r8,4), %zmm1
	vmovups	64(%r11,%r8,4), %zmm3
	vfmadd231ps	%zmm1, %zmm0, %zmm3
	vmovups	%zmm3, 64(%r11,%r8,4)
	vfmadd231ps	-384(%rdi,%r8,4), %zmm0, %zmm1
	vmovups	%zmm1, -384(%rsi,%r8,4)
	vmovups	-320(%rsi,%r8,4), %zmm1
	vmovups	128(%r11,%r8,4), %zmm3
	vfmadd231ps	%zmm1, %zmm0, %zmm3
	vmovups	%zmm3, 128(%r11,%r8,4)
	vfmadd231ps	-320(%rdi,%r8,4), %zmm0, %zmm1
	vmovups	%zmm1, -320(%rsi,%r8,4)
	vmovups	-256(%rsi,%r8,4), %zmm1
	vmovups	192(%r11,%r8,4), %zmm3
	vfmadd231ps	%zmm1, %zmm0, %zmm3
	vmovups	%zmm3, 192(%r11,%r8,4)
	vfmadd231ps	-256(%rdi,%r8,4), %zmm0, %zmm1
	vmovups	%zmm1, -256(%rsi,%r8,4)
	vmovups	-192(%rsi,%r8,4), %zmm1
	vmovups	256(%r11,%r8,4), %zmm3
	vfmadd231ps	%zmm1, %zmm0, %zmm3
	vmovups	%zmm3, 256(%r11,%r8,4)
	vfmadd231ps	-192(%rdi,%r8,4), %zmm0, %zmm1
	vmovups	%zmm1, -192(%rsi,%r8,4)
	vmovups	-128(%rsi,%r8,4), %zmm1
	vmovups	320(%r11,%r8,4), %zmm3
	vfmadd231ps	%zmm1, %zmm0, %zmm3
	vmovups	%zmm3, 320(%r11,%r8,4)
	vfmadd231ps	-128(%rdi,%r8,4), %zmm0, %zmm1
	vmovups	%zmm1, -128(%rsi,%r8,4)
	vmovups	-64(%rsi,%r8,4), %zmm1
	vmovups	384(%r11,%r8,4), %zmm3
	vfmadd231ps	%zmm1, %zmm0, %zmm3
	vmovups	%zmm3, 384(%r11,%r8,4)
	vfmadd231ps	-64(%rdi,%r8,4), %zmm0, %zmm1
	vmovups	%zmm1, -64(%rsi,%r8,4)
	vmovups	(%rsi,%r8,4), %zmm1
	vmovups	448(%r11,%r8,4), %zmm3
	vfmadd231ps	%zmm1, %zmm0, %zmm3
	vmovups	%zmm3, 448(%r11,%r8,4)
	vfmadd231ps	(%rdi,%r8,4), %zmm0, %zmm1
	vmovups	%zmm1, (%rsi,%r8,4)
	leaq	128(%r8), %r8
	jne	.LBB2_21
	testq	%r10, %r10
	je	.LBB2_25
.LBB2_23:
	addq	%r8, %rax
	addq	%r8, %rdx
	shll	$6, %r10d
	xorl	%esi, %esi
	leaq	(%r14,%rdx,4), %rcx
	leaq	(%r11,%r8,4), %rdx
	leaq	(%r15,%rax,4), %rax
	.p2align	4
.LBB2_24:
	vmovups	(%rax,%rsi), %zmm1
	vmovups	(%rdx,%rsi), %zmm3
	vfmadd231ps	%zmm1, %zmm0, %zmm3
	vmovups	%zmm3, (%rdx,%rsi)
	vfmadd231ps	(%rcx,%rsi), %zmm0, %zmm1
	vmovups	%zmm1, (%rax,%rsi)
	addq	$64, %rsi
	cmpq	%rsi, %r10
	jne	.LBB2_24
.LBB2_25:
	vmovss	%xmm2, (%rbp)
	xorl	%eax, %eax
	popq	%rbx
	popq	%r12
	popq	%r13
	popq	%r14
	popq	%r15
	popq	%rbp
	vzeroupper
	retq
.LBB2_28:
	vmovaps	%xmm3, %xmm2
	jmp	.LBB2_30
.Lfunc_end2:
	.size	_ZN9chainrule7vectors11row_kernels4stepB2v2B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedExff5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE, .Lfunc_end2-_ZN9chainrule7vectors11row_kernels4stepB2v2B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedExff5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE

	.type	.const.steps,@object
	.section	.lrodata,"al",@progbits
.const.steps:
	.asciz	"steps"
	.size	.const.steps, 6

	.type	_ZN08NumbaEnv8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE,@object
	.comm	_ZN08NumbaEnv8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE,8,8
	.type	".const.missing Environment: _ZN08NumbaEnv8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE",@object
	.p2align	4, 0x0
".const.missing Environment: _ZN08NumbaEnv8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE":
	.asciz	"missing Environment: _ZN08NumbaEnv8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE"
	.size	".const.missing Environment: _ZN08NumbaEnv8__main__5stepsB2v1B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi2E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE", 268

	.type	".const.can't unbox array from PyObject into native value.  The object maybe of a different type",@object
	.p2align	4, 0x0
".const.can't unbox array from PyObject into native value.  The object maybe of a different type":
	.asciz	"can't unbox array from PyObject into native value.  The object maybe of a different type"
	.size	".const.can't unbox array from PyObject into native value.  The object maybe of a different type", 89

	.type	".const.Error creating Python tuple from runtime exception arguments",@object
	.p2align	4, 0x0
".const.Error creating Python tuple from runtime exception arguments":
	.asciz	"Error creating Python tuple from runtime exception arguments"
	.size	".const.Error creating Python tuple from runtime exception arguments", 61

	.type	".const.unknown error when calling native function",@object
	.p2align	4, 0x0
".const.unknown error when calling native function":
	.asciz	"unknown error when calling native function"
	.size	".const.unknown error when calling native function", 43

	.type	_ZN08NumbaEnv9chainrule7vectors11row_kernels4stepB2v2B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedExff5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE,@object
	.comm	_ZN08NumbaEnv9chainrule7vectors11row_kernels4stepB2v2B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedExff5ArrayIfLi2E1C7mutable7alignedE5ArrayIfLi1E1C7mutable7alignedE,8,8
	.type	_ZN08NumbaEnv9chainrule7vectors11row_kernels7productB2v3B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedEx,@object
	.comm	_ZN08NumbaEnv9chainrule7vectors11row_kernels7productB2v3B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAE5ArrayIfLi2E1C7mutable7alignedEx5ArrayIfLi2E1C7mutable7alignedEx,8,8
	.type	_ZN08NumbaEnv9chainrule7vectors11row_kernels7sigmoidB2v4B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAEf5ArrayIfLi1E1C7mutable7alignedE,@object
	.comm	_ZN08NumbaEnv9chainrule7vectors11row_kernels7sigmoidB2v4B54c8tJTIeFIjxB2IKSgI4CrvQCk0Z4yRYcWsBAQ4s_2fqEqkpAMW0QQAEf5ArrayIfLi1E1C7mutable7alignedE,8,8
	.section	".note.GNU-stack","",@progbits
