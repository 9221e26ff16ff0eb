package vfs_test

import (
	"runtime"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/vfstest"
)

func TestConformanceOS(t *testing.T) {
	vfstest.Run(t, vfstest.Options{
		New:          func(t *testing.T) (vfs.FS, string) { return vfs.OS{}, t.TempDir() },
		WindowsRules: runtime.GOOS == "windows",
	})
}

func TestConformanceMem(t *testing.T) {
	for _, windows := range []bool{false, true} {
		name := "posix"
		if windows {
			name = "windows"
		}
		t.Run(name, func(t *testing.T) {
			vfstest.Run(t, vfstest.Options{
				New: func(t *testing.T) (vfs.FS, string) {
					m := vfs.NewMem(vfs.MemOptions{WindowsRules: windows})
					if err := m.MkdirAll("db"); err != nil {
						t.Fatal(err)
					}
					return m, "db"
				},
				WindowsRules: windows,
			})
		})
	}
}
