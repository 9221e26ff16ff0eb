package snapshot

import (
	"strconv"
	"strings"

	"github.com/stele-go/stele/base"
)

const (
	manifestPrefix = "MANIFEST-"
	tempSuffix     = ".tmp"
	imageSuffix    = ".img"
)

// ManifestName is the name of manifest file num, such as "MANIFEST-000001". Manifest files have
// numbers of their own, which are not those of State.NextFileNum.
func ManifestName(num base.FileNum) string { return manifestPrefix + num.String() }

// IsManifestName reports whether name is that of a manifest file, or of one that was being
// written when its process died ("MANIFEST-000002.tmp").
func IsManifestName(name string) bool {
	_, ok := ParseManifestName(strings.TrimSuffix(name, tempSuffix))
	return ok
}

// ParseManifestName is the inverse of ManifestName. It accepts only what ManifestName produces.
func ParseManifestName(name string) (base.FileNum, bool) {
	digits, ok := strings.CutPrefix(name, manifestPrefix)
	if !ok {
		return 0, false
	}
	return parseNum(digits)
}

// ImageName is the name of image file num: "000009.img".
func ImageName(num base.FileNum) string { return num.String() + imageSuffix }

// ParseImageName is the inverse of ImageName. It accepts only what ImageName produces.
func ParseImageName(name string) (base.FileNum, bool) {
	digits, ok := strings.CutSuffix(name, imageSuffix)
	if !ok {
		return 0, false
	}
	return parseNum(digits)
}

// parseNum parses a file number. It accepts one spelling of each number, so that two names
// never stand for the same file.
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
