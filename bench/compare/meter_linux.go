package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stele-go/stele/bench/compare/peer"
)

// meter measures what the process uses, and what the disk is made to do. The disk
// is counted whole: others who use it count as well.
type meter struct {
	start         time.Time
	cpu           time.Duration
	device, flush float64
	counted       bool
	dir           string
	store         peer.Store
}

func startMeter(dir string, s peer.Store) meter {
	m := meter{dir: dir, store: s, cpu: cpuTime(s)}
	m.device, m.flush, m.counted = deviceCounts(dir)
	m.start = time.Now()
	return m
}

// stop adds what was used, for each of n steps.
func (m meter) stop(out figures, n int) {
	steps := float64(n)
	out["s"] = time.Since(m.start).Seconds()
	out["cpu µs/step"] = float64((cpuTime(m.store) - m.cpu).Microseconds()) / steps
	if device, flush, ok := deviceCounts(m.dir); ok && m.counted {
		out["device KB/step"] = (device - m.device) / 1024 / steps
		out["flushes/step"] = (flush - m.flush) / steps
	}
	out["rss MB"] = peakMB(m.store)
}

// cpuTime is what the process, and those of the store if it has any, used so far. Those
// that ended, as a server does when its store is closed, count too.
func cpuTime(s peer.Store) time.Duration {
	var own time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) != nil {
			return 0
		}
		own += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	if server, ok := s.(peer.Server); ok {
		others, _ := server.Used()
		own += others
	}
	return own
}

// peakMB is the most memory the process ever had resident, without the ballast it
// never touched, and what processes of the store have now.
func peakMB(s peer.Store) float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	mb := float64(u.Maxrss) / 1024
	if server, ok := s.(peer.Server); ok {
		_, others := server.Used()
		mb += others
	}
	return mb
}

// deviceCounts returns the bytes written to the device of a directory and its
// flushes since it was started; false if the kernel does not count them.
func deviceCounts(dir string) (written, flushes float64, ok bool) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, 0, false
	}
	st, isStat := info.Sys().(*syscall.Stat_t)
	if !isStat {
		return 0, 0, false
	}
	major, minor := st.Dev>>8&0xfff, st.Dev&0xff|st.Dev>>12&0xfff00
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", major, minor))
	if err != nil {
		return 0, 0, false
	}
	fields := strings.Fields(string(text))
	if len(fields) < 16 {
		return 0, 0, false
	}
	sectors, err1 := strconv.ParseFloat(fields[6], 64)
	flushes, err2 := strconv.ParseFloat(fields[15], 64)
	return sectors * 512, flushes, err1 == nil && err2 == nil
}

// allocated is what a file takes on the disk, at most its length.
func allocated(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return min(st.Blocks*512, info.Size())
	}
	return info.Size()
}
