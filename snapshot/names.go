package snapshot

import (
	"strconv"
	"strings"

	"github.com/stele-go/stele/internal/base"
)

const (
	manifestPrefix = "MANIFEST-"
	tempSuffix     = ".tmp"
	imageSuffix    = ".img"
)

// ManifestName is the name of manifest file num: "MANIFEST-000001".
// Manifest files are numbered on their own, apart from the numbers that
// State.NextFileNum hands out.
func ManifestName(num base.FileNum) string { return manifestPrefix + num.String() }

// IsManifestName reports whether name is the name of a manifest file, or of one
// that was being written when its process died ("MANIFEST-000002.tmp").
func IsManifestName(name string) bool {
	_, ok := ParseManifestName(strings.TrimSuffix(name, tempSuffix))
	return ok
}

// ParseManifestName is the inverse of ManifestName. Only the exact spelling
// that ManifestName produces is accepted.
func ParseManifestName(name string) (base.FileNum, bool) {
	digits, ok := strings.CutPrefix(name, manifestPrefix)
	if !ok {
		return 0, false
	}
	return parseNum(digits)
}

// ImageName is the name of image file num: "000009.img".
func ImageName(num base.FileNum) string { return num.String() + imageSuffix }

// ParseImageName is the inverse of ImageName. Only the exact spelling that
// ImageName produces is accepted.
func ParseImageName(name string) (base.FileNum, bool) {
	digits, ok := strings.CutSuffix(name, imageSuffix)
	if !ok {
		return 0, false
	}
	return parseNum(digits)
}

// parseNum reads a file number in its one canonical spelling, so that two names
// never mean the same file.
func parseNum(digits string) (base.FileNum, bool) {
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n == 0 || base.FileNum(n).String() != digits {
		return 0, false
	}
	return base.FileNum(n), true
}

// tempName is the name a manifest is written under until it is complete.
func tempName(num base.FileNum) string { return ManifestName(num) + tempSuffix }

// parseTempName is the inverse of tempName.
func parseTempName(name string) (base.FileNum, bool) {
	stem, ok := strings.CutSuffix(name, tempSuffix)
	if !ok {
		return 0, false
	}
	return ParseManifestName(stem)
}
