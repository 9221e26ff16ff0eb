module github.com/stele-go/stele/wire

go 1.25.0

require (
	github.com/stele-go/stele v0.1.0
	github.com/tinylib/msgp v1.6.5
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
)

replace github.com/stele-go/stele => ..
