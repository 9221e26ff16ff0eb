package main

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"
)

// view serves a store that another process may be writing. A store that is opened for reading
// stays as it was then, so view opens it again when its files have changed. Requests that began
// before go on with the store as they found it.
type view struct {
	dir  string
	open func() (http.Handler, func() error, error)

	mu    sync.Mutex
	now   *generation
	files string // the files of the directory when now was opened
	asked time.Time
}

// stale is how long the files are believed to be unchanged.
const stale = time.Second

// generation is the store as it was opened once. It is closed with its last user.
type generation struct {
	http.Handler
	end   func() error
	users sync.WaitGroup
}

// ServeHTTP implements http.Handler.
func (v *view) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	if time.Since(v.asked) > stale {
		// If the store cannot be opened now, the view opened before is used.
		_ = v.refreshLocked()
	}
	g := v.now
	g.users.Add(1)
	v.mu.Unlock()
	defer g.users.Done()
	g.ServeHTTP(w, r)
}

func (v *view) refresh() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.refreshLocked()
}

func (v *view) refreshLocked() error {
	v.asked = time.Now()
	files, err := fingerprint(v.dir)
	if err != nil {
		return err
	}
	if v.now != nil && files == v.files {
		return nil
	}
	h, end, err := v.open()
	if err != nil {
		return err
	}
	before := v.now
	v.now, v.files = &generation{Handler: h, end: end}, files
	if before != nil {
		go func() {
			before.users.Wait()
			_ = before.end() // only read
		}()
	}
	return nil
}

// close closes what is open. No request may be under way.
func (v *view) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now.users.Wait()
	return v.now.end()
}

// fingerprint differs when a file of the directory was written, made or removed.
func fingerprint(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	text := ""
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // removed since; the next look sees it
		}
		text += fmt.Sprintln(e.Name(), info.Size(), info.ModTime().UnixNano())
	}
	return text, nil
}
