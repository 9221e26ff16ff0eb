// Package guide runs the code of the pages in docs/guide.
package guide
