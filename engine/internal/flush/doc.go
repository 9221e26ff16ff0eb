// Package flush moves the log into segments, so that the log can go.
//
// A flush takes the log up to the end of one of its files: the seal. It writes what is live
// there into segments, and publishes them with one edit of the manifest. Commits go on
// meanwhile, in the next log file. Who flushes holds image.Chain.Mu, so that no other flush,
// no other image and no end of a compaction comes between.
//
// # The steps
//
//  1. Allow no bases. The patch floor is raised above all records, so that a record that
//     is prepared from now on holds no patch (MayBeBase).
//  2. Arm. From now on the log tells the flush of each file that it begins (LogBegun),
//     before the first record of the file.
//  3. Rotate. The log serves wal.Log.Rotate when every batch before it is applied: it syncs
//     the current file and ends it with a mark. The next commit begins a new file.
//  4. Take a view at the seal. If a file that may lie behind the seal has been begun since
//     step 2, LogBegun has taken a view of the index at that moment, and wal.Options.OnCreate
//     promises that the index then held what the earlier files hold, no more and no less. If
//     there is no such file, nothing was committed since step 3, and the view is taken now.
//     The seal is behind the last record of the view. The patch floor becomes the first
//     record behind it.
//  5. Gather the families that have anything in the log: those of all commits and replayed
//     records, and, at the first flush after Open, those with pages in images. Open leaves
//     the latter out, so that it need not look at every family.
//  6. Write the segments, family by family: what is left of the items that records from the
//     floor to the seal put, their deletions and tombstones, and the values that live items
//     refer to and that lie in the sealed files. Where nothing of that has to be kept, no
//     segment is written, and the log goes all the same. Commits go on, so images come due
//     meanwhile, and are written between families (image.Chain.WriteBeside).
//  7. Publish, with image.Chain.Publish. It syncs the log, writes an image of the index as
//     it is by now, and makes one edit of the manifest: the segments and the image are
//     named, the sealed log files are not any more, and the floor is the first record
//     behind the seal.
//  8. Install. The families in memory are told where their values lie now. "The life of a
//     place" in package storage explains this step.
//  9. Retire the sealed log files, and the images that the new one replaces. They are
//     removed when no view needs them any more.
//
// # Where the seal lies
//
// A segment must not know more than the log files that it replaces. If the images are lost,
// the index is made from the segments, and the log from the floor on is replayed on top:
// each record has to find what was there before it. So the seal is the end of a file, and
// the view shows exactly what lies before it.
//
// No patch behind the seal may be against a value before it. So a flush finds the whole
// chain of each patch in the files that it takes, and reads no value of a segment; and what
// it leaves behind in them, because it is dead, is needed by no later record. A record that
// is committed behind the rotation is prepared after step 1, and holds no patch until the
// seal is known. But the log may begin a file between step 2 and the rotation, because the
// file before it is full. If the first batch of that file holds patches, some of it was
// prepared before step 1, and the seal must not lie before it: LogBegun takes no view. The
// rotation ends that file too, and the seal lies at its end or later. If it holds none, what
// comes after it is prepared after step 2, and therefore after step 1.
//
// # A crash, and an error
//
// Up to the edit of the manifest, the log is in charge. A crash leaves segments and an
// image, whole or not, that no manifest names. Their numbers were reserved in the manifest
// before, so Open knows them as leftovers, and removes them. It removes a new log file that
// the manifest does not name as well, which holds no record. It replays the sealed files as
// it would any others.
//
// The edit is in the manifest whole or not at all. By then everything that it names is
// durable: segments and image with their names, and the log as far as the image knows it.
//
// After the edit, Open reads the image, and replays the log behind it. Sealed log files and
// old images that are still there are leftovers.
//
// After an error before the edit, or one that says that the edit was not made, what was
// written is removed. The sealed files stay in the log, and the next flush takes them. If it
// is not known whether the edit was made, the manifest is poisoned. All files stay then, and
// the next Open goes by what it finds.
package flush
