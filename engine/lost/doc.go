// Package lost names the values that damage has cost: by the items that refer to them.
//
// It is for this repository, and makes no promise to others.
package lost
