package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// floors measures what the machine allows: nothing durable can be quicker than a
// sync, nothing read quicker than a read from the page cache or from memory.
func (c cell) floors() (figures, error) {
	if err := os.MkdirAll(c.Dir, 0o777); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(c.Dir, "floor"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write(make([]byte, 4<<20)); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	var syncs, reads latencies
	page := bytes.Repeat([]byte{7}, 8192)
	for i := range 100 {
		start := time.Now()
		if _, err := f.WriteAt(page[:4096], int64(i)*4096); err != nil {
			return nil, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return nil, err
		}
		syncs.since(start)
	}
	for i := range 5000 {
		start := time.Now()
		if _, err := f.ReadAt(page, int64(i*7919%500)*8192); err != nil {
			return nil, err
		}
		reads.since(start)
	}
	out := figures{}
	syncs.report(out, "4 KB fdatasync")
	reads.report(out, "8 KB pread")
	const copied = 64 << 20
	src, dst := bytes.Repeat([]byte{1}, copied), bytes.Repeat([]byte{2}, copied)
	start := time.Now()
	copy(dst, src)
	out["memcpy GB/s"] = copied / time.Since(start).Seconds() / 1e9
	return out, nil
}

// freshCopies is what handing out the values of W4 costs at the least: 200 of 1.3 to
// 267 KB, 27 MB, each copied once into memory of its own. It is a cell, so that its
// memory is as fresh as that of the stores.
func (c cell) freshCopies() (figures, error) {
	const steps, grows = 200, 1333
	src, out := bytes.Repeat([]byte{1}, steps*grows), figures{}
	var took latencies
	for range 5 {
		start := time.Now()
		for i := range steps {
			runtime.KeepAlive(bytes.Clone(src[:(i+1)*grows]))
		}
		took.since(start)
	}
	took.report(out, "27 MB copied")
	return out, nil
}

// readMemory returns how long all processors together take to read n bytes: the
// least of three times.
func readMemory(n int) time.Duration {
	memory, least := bytes.Repeat([]byte{1}, n), time.Hour
	for range 3 {
		start := time.Now()
		var wg sync.WaitGroup
		workers := runtime.GOMAXPROCS(0)
		for w := range workers {
			wg.Go(func() {
				if bytes.IndexByte(memory[w*n/workers:(w+1)*n/workers], 0) >= 0 {
					panic("unreachable")
				}
			})
		}
		wg.Wait()
		least = min(least, time.Since(start))
	}
	return least
}
