//go:build !unix

package main

import "os"

// terminate ends a program: there is no way to ask.
var terminate = os.Kill
