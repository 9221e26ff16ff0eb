//go:build unix

package main

import "syscall"

// terminate asks a program to end.
const terminate = syscall.SIGTERM
