"use strict";
exports.here = __filename;
