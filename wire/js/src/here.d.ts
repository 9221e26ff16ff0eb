/** Where this module is: a file URL in the ESM build, a path in the CommonJS build. */
export declare const here: string;
