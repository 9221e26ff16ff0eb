// Package changes runs the code of the guide's page on changed graphs.
package changes
