module github.com/stele-go/stele/cmd/stele

go 1.25.0

require (
	github.com/jedib0t/go-pretty/v6 v6.7.9
	github.com/spf13/cobra v1.10.2
	github.com/stele-go/stele v0.1.0
	golang.org/x/term v0.43.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/mattn/go-runewidth v0.0.16 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
	golang.org/x/text v0.22.0 // indirect
)

replace github.com/stele-go/stele => ../..
