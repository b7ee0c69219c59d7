// node:dns/promises.

import { promises } from 'node:dns';

export const {
    lookup, resolve, resolve4, resolve6, resolveAny, resolveCaa, resolveCname, resolveMx, resolveNaptr, resolveNs, resolvePtr, resolveSoa, resolveSrv,
    resolveTxt, reverse, Resolver, getServers, setServers, getDefaultResultOrder, setDefaultResultOrder,
} = promises;
export default promises;
